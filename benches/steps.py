#!/usr/bin/env python3
"""Training steps of this project against PyTorch's, interleaved.

    benches/steps.py [--quick] [--models M,…] [--batches B,…] [--threads T,…] [--isa native,avx2]
                     [--rounds N] [--row-seconds S] [--minutes M]
                     [--python PYTHON-WITH-TORCH] [--json FILE]

Each variant is a process of its own: this project's, this project's without Winograd's
convolution if the model has any, PyTorch's with contiguous tensors, and PyTorch's with
channels-last ones. They take turns, one step each, so that other load on the machine
affects all of them alike. CPU time is user and system time of all threads of the process,
from `/proc/PID/task/*/schedstat`; peak memory is the process's high-water mark (`VmHWM`).
Every printed time is a median, with its interquartile range in the record, and beside each
row the machine's load average over one minute before and after it.

An existing record is extended: its rows are printed and not measured again, so that a
long comparison can be made in parts of `--minutes` each.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
LAYOUTS = ["contiguous", "channels_last"]
# Models with convolutions that Winograd's algorithm serves.
WINOGRAD = ["resnet18", "resnet32", "resnet34", "resnet50", "vgg11_cifar", "vgg11_at_32"]
DIRECT = {"EPOCHCOST_CONVOLUTION": "direct"}
# Fewest rounds of a row, however long they take.
LEAST_ROUNDS = 3
# Settings that limit each side to AVX2.
AVX2 = {
    "ours": {"EPOCHCOST_SIMD": "avx2"},
    "torch": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


class Arm:
    """A process that takes one step per request."""

    def __init__(self, name, command, environment):
        self.name = name
        self.cpu_ms, self.wall_ms = [], []
        started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"failed to start {name}: {' '.join(map(str, command))}")
        self.ready_s = time.perf_counter() - started
        self.step(record=False)
        self.first_gradient_s = time.perf_counter() - started

    def cpu_ns(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def step(self, record=True):
        before = self.cpu_ns()
        print("step", file=self.process.stdin, flush=True)
        wall_ms = float(self.process.stdout.readline())
        if record:
            self.cpu_ms.append((self.cpu_ns() - before) / 1e6)
            self.wall_ms.append(wall_ms)

    def finish(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        self.process.stdin.close()
        self.process.wait()
        return {
            "cpu_ms": summary(self.cpu_ms),
            "wall_ms": summary(self.wall_ms),
            "peak_mb": int(peak.split()[1]) * 1024 / 1e6,
            "ready_s": self.ready_s,
            "first_gradient_s": self.first_gradient_s,
        }


def summary(values):
    if len(values) < 2:
        return {"median": values[0], "iqr": None, "n": len(values)} if values else None
    low, _, high = statistics.quantiles(values, n=4)
    return {"median": statistics.median(values), "iqr": high - low, "n": len(values)}


def ours(model, batch, threads, isa, name="ours", settings={}):
    environment = {"RAYON_NUM_THREADS": str(threads), **settings}
    environment |= AVX2["ours"] if isa == "avx2" else {}
    command = [RELEASE / "examples/step", model, str(batch), "cpu"]
    return Arm(name, command, environment)


def torch(options, model, batch, threads, isa, layout):
    script = ROOT / "benches/torch_step.py"
    command = [options.python, script, model, str(batch), layout, str(threads)]
    environment = {"OMP_NUM_THREADS": str(threads), **(AVX2["torch"] if isa == "avx2" else {})}
    return Arm(layout, command, environment)


def compare(options, model, batch, threads, isa):
    """One row of the table."""
    load = [os.getloadavg()[0]]
    arms = [ours(model, batch, threads, isa)]
    if model in WINOGRAD:
        arms.append(ours(model, batch, threads, isa, "direct", DIRECT))
    if options.python:
        arms += [torch(options, model, batch, threads, isa, layout) for layout in LAYOUTS]
    for arm in arms:
        arm.step(record=False)
    end = time.perf_counter() + options.row_seconds
    for taken in range(options.rounds):
        if taken >= LEAST_ROUNDS and time.perf_counter() > end:
            break
        for arm in arms:
            arm.step()
    load.append(os.getloadavg()[0])
    row = key(model, batch, threads, isa) | {"load": load}
    row |= {arm.name: arm.finish() for arm in arms}
    peers = [row[layout] for layout in LAYOUTS if layout in row]
    for arm in ["ours", "direct"]:
        if peers and arm in row:
            best = min(peer["cpu_ms"]["median"] for peer in peers)
            row[arm]["cpu_ratio"] = row[arm]["cpu_ms"]["median"] / best
    return row


def key(model, batch, threads, isa):
    return {"model": model, "batch": batch, "threads": threads, "isa": isa}


def cold_start(options):
    """Measures seconds from the start of a process to its first MobileNet gradient."""
    rounds = []
    for _ in range(options.rounds):
        arms = {"ours": ours("mobilenet", 32, 2, "native")}
        if options.python:
            arms["torch"] = torch(options, "mobilenet", 32, 2, "native", "channels_last")
        rounds.append({name: arm.finish() for name, arm in arms.items()})
    return {
        name: {
            measure: summary([round[name][measure] for round in rounds])
            for measure in ["ready_s", "first_gradient_s"]
        }
        for name in rounds[0]
    }


def roofline():
    """Measures the peaks of this machine, one thread, with both instruction sets."""
    peaks = {}
    for isa, environment in [("native", {}), ("avx2", AVX2["ours"])]:
        found = subprocess.run(
            [RELEASE / "examples/peaks"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        peaks[isa] = json.loads(found.stdout)
    return peaks


def machine(options):
    model = next(
        (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line),
        platform.processor(),
    )
    found = {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "rustc": command_output(["rustc", "--version"]),
        "commit": command_output(["git", "-C", ROOT, "describe", "--always", "--dirty"]),
    }
    if options.python:
        about = (
            "import torch, sys; print(sys.version.split()[0]); print(torch.__version__); "
            "print(torch.backends.cpu.get_cpu_capability())"
        )
        python, version, capability = command_output([options.python, "-c", about]).split("\n")
        found |= {"python": python, "pytorch": version, "pytorch_capability": capability}
    return found


def command_output(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def binary_mb():
    """Measures the size of the stripped worker."""
    stripped = RELEASE / "bootstrap.stripped"
    subprocess.run(["strip", "-o", stripped, RELEASE / "bootstrap"], check=True)
    size = stripped.stat().st_size / 1e6
    stripped.unlink()
    return size


HEADER = ["model", "batch", "threads", "isa", "ours", "direct", "PyTorch", "channels-last",
          "ratio", "direct", "peak MB: ours", "PyTorch", "channels-last"]


def print_row(row):
    def cell(arm, path, digits):
        found = row.get(arm)
        for name in path:
            found = found and found.get(name)
        return "–" if found is None else f"{found:.{digits}f}"

    arms = ["ours", "direct", *LAYOUTS]
    cells = [row["model"], row["batch"], row["threads"], row["isa"]]
    cells += [cell(arm, ["cpu_ms", "median"], 1) for arm in arms]
    cells += [cell(arm, ["cpu_ratio"], 2) for arm in ["ours", "direct"]]
    cells += [cell(arm, ["peak_mb"], 0) for arm in ["ours", *LAYOUTS]]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="batch 128 only, three rounds")
    parser.add_argument("--models", default="mobilenet,resnet18,lenet5")
    parser.add_argument("--batches", default="32,128,512")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--isa", default="native,avx2")
    parser.add_argument("--rounds", type=int, default=9, help="most rounds of a row")
    parser.add_argument("--row-seconds", type=float, default=60,
                        help=f"after so long a row ends, with {LEAST_ROUNDS} rounds at least")
    parser.add_argument("--minutes", type=float, help="no row begins later")
    parser.add_argument("--python", default=None, help="a Python with PyTorch; none: ours alone")
    parser.add_argument("--json", type=pathlib.Path, help="the record, written or added to")
    options = parser.parse_args()
    if options.quick:
        options.batches, options.threads, options.rounds = "128", "1", 3
    return options


def opened(options):
    """Returns the existing record, or a new one with the machine's properties."""
    here = machine(options)
    if options.json and options.json.exists():
        record = json.loads(options.json.read_text())
        if record["machine"] != here:
            sys.exit(f"{options.json} is of another build or machine: name another file")
        return record
    return {
        "date": datetime.date.today().isoformat(),
        "machine": here,
        "peaks": roofline(),
        "worker_mb": binary_mb(),
        "load": os.getloadavg()[0],
        "cold_start": cold_start(options),
        "rows": [],
    }


def wanted(options):
    return [
        key(model, batch, threads, isa)
        for isa in options.isa.split(",")
        for threads in map(int, options.threads.split(","))
        for model in options.models.split(",")
        for batch in map(int, options.batches.split(","))
    ]


def main():
    started = time.perf_counter()
    options = arguments()
    build = ["cargo", "build", "--release", "--bin", "bootstrap", "--example", "step"]
    subprocess.run([*build, "--example", "peaks"], cwd=ROOT, check=True)
    record = opened(options)
    print("CPU ms per step, medians; ratio: to the better of PyTorch's layouts\n")
    print("| " + " | ".join(HEADER) + " |\n|" + " --- |" * len(HEADER), flush=True)
    for row in wanted(options):
        held = [held for held in record["rows"] if row.items() <= held.items()]
        late = options.minutes and time.perf_counter() - started > 60 * options.minutes
        for held_row in held:
            print_row(held_row)
        if held or late:
            continue
        record["rows"].append(compare(options, **row))
        print_row(record["rows"][-1])
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps({key: record[key] for key in ["peaks", "worker_mb", "cold_start"]}, indent=1))


if __name__ == "__main__":
    main()
