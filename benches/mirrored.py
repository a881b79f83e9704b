#!/usr/bin/env python3
"""Training steps of TensorFlow's MirroredStrategy against PyTorch's, interleaved, on the CPU.

    benches/mirrored.py --python PYTHON-WITH-BOTH [--rows lenet5:16,…] [--rounds N] [--json FILE]

Part of no build and no test. For each model and batch size the processes
take turns, one step each, as in `steps.py`: PyTorch's with contiguous and with channels-last tensors,
TensorFlow's without a strategy, with one replica, and with two, of which each has the whole batch. All have
one thread, but two replicas two. This project's step is measured beside them if its example is built
(`cargo build --release --example step`). TensorFlow's steps hold SGD's update, the others none.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess

from steps import LAYOUTS, RELEASE, ROOT, Arm, ours, summary, torch


def tensorflow(options, name, model, batch, replicas):
    script = ROOT / "benches/tensorflow_step.py"
    command = [options.python, script, model, str(batch), str(replicas), str(max(replicas, 1))]
    return Arm(name, command, {})


def compare(options, model, batch):
    load = [os.getloadavg()[0]]
    arms = [torch(options, model, batch, 1, "native", layout) for layout in LAYOUTS]
    for name, replicas in {"tensorflow": 0, "mirrored_1": 1, "mirrored_2": 2}.items():
        arms.append(tensorflow(options, name, model, batch, replicas))
    if (RELEASE / "examples/step").exists():
        arms.append(ours(model, batch, 1, "native"))
    for arm in arms:
        arm.step(record=False)
    for _ in range(options.rounds):
        for arm in arms:
            arm.step()
    load.append(os.getloadavg()[0])
    row = {"model": model, "batch": batch, "load": load}
    for arm in arms:
        samples = batch * (2 if arm.name == "mirrored_2" else 1)
        per_sample = summary([each / samples for each in arm.cpu_ms])
        row[arm.name] = {"cpu_ms_per_sample": per_sample, "steps_cpu_ms": arm.cpu_ms} | arm.finish()
    best = min(row[layout]["cpu_ms_per_sample"]["median"] for layout in LAYOUTS)
    for arm in arms:
        row[arm.name]["cpu_ratio"] = row[arm.name]["cpu_ms_per_sample"]["median"] / best
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", required=True, help="a Python with PyTorch and TensorFlow")
    parser.add_argument("--rows", default="lenet5:16,lenet5:32,lenet5:128,resnet34:32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    about = (
        "import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'; import tensorflow, torch; "
        "print(tensorflow.__version__, torch.__version__)"
    )
    versions = subprocess.run([options.python, "-c", about], capture_output=True, text=True, check=True)
    versions = versions.stdout.split()
    cpu = next(line for line in open("/proc/cpuinfo") if "model name" in line)
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": {"cpu": cpu.split(":")[1].strip(), "cores": os.cpu_count()},
        "tensorflow": versions[0],
        "pytorch": versions[1],
        "rows": [],
    }
    for row in options.rows.split(","):
        model, batch = row.split(":")
        record["rows"].append(compare(options, model, int(batch)))
        ratios = {name: round(arm["cpu_ratio"], 2)
                  for name, arm in record["rows"][-1].items() if isinstance(arm, dict)}
        print(model, batch, ratios, flush=True)
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
