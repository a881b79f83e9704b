#!/usr/bin/env python3
"""Training steps of this project on a GPU against PyTorch's on the same one, interleaved.

    benches/gpu.py [--models M,…] [--batches B,…] [--torch VARIANT,…] [--rounds N] [--steps N]
                   [--python PYTHON-WITH-TORCH | --ours-alone] [--json FILE]

Each variant is a process of its own; they take turns, one step each. Ours computes in fp32, tf32 and
bf16. PyTorch computes in fp32 with contiguous and channels-last tensors, with TF32 allowed, and
compiled; each of them once with images and parameters that stay on the GPU, and once with the
transfers of our step: parameters and images sent, one flat gradient read. Times are wall times
until the GPU has ended; peak memory is the driver's figure for the process, its context included;
kernels per step are counted separately from the times.

Without a GPU the program names what is missing and exits with 5.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from steps import ROOT, Arm, command_output, summary

TARGET = ROOT / "target/cuda"
STEP = TARGET / "release/examples/step"
PRECISIONS = ["fp32", "tf32", "bf16"]
# PyTorch's arms: layout, precision, compiled.
TORCH = {
    "contiguous": ("contiguous", "fp32", False),
    "channels_last": ("channels_last", "fp32", False),
    "channels_last_tf32": ("channels_last", "tf32", False),
    "compiled": ("channels_last", "fp32", True),
}
LACKS = 5


def lacking(what, remedy):
    print(f"error: {what}\nhelp: {remedy}", file=sys.stderr)
    sys.exit(LACKS)


def gpu(options):
    """Returns the GPU's name, driver and memory; exits if something is missing."""
    if not shutil.which("nvidia-smi"):
        lacking("there is no NVIDIA driver here: nvidia-smi was not found",
                "run this on a machine with an NVIDIA GPU")
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
             "--format=csv,noheader"]
    asked = subprocess.run(query, capture_output=True, text=True)
    if asked.returncode or not asked.stdout.strip():
        lacking(f"the NVIDIA driver finds no GPU: {asked.stdout}{asked.stderr}".strip(),
                "run this on a machine with an NVIDIA GPU")
    if not options.ours_alone:
        about = "import torch; assert torch.cuda.is_available(); print(torch.__version__)"
        asked_torch = subprocess.run([options.python, "-c", about], capture_output=True, text=True)
        if asked_torch.returncode:
            lacking(f"{options.python} has no PyTorch that computes on the GPU",
                    "name one with --python, or give --ours-alone")
        return {"gpu": asked.stdout.strip(), "pytorch": asked_torch.stdout.strip()}
    return {"gpu": asked.stdout.strip()}


def commit():
    """Returns the checkout's commit; None where it was carried without git."""
    if not shutil.which("git"):
        return None
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None


def build():
    if shutil.which("cargo"):
        command = ["cargo", "build", "--release", "-p", "epochcost-models", "--features", "cuda",
                   "--example", "step", "--target-dir", TARGET]
        subprocess.run(command, cwd=ROOT, check=True)
    elif not STEP.is_file():
        lacking(f"there is neither cargo nor {STEP}",
                "build it elsewhere with `just build-cuda --examples` and carry it here")


def ours(model, batch, precision):
    return Arm(f"ours_{precision}", [STEP, model, str(batch), "cuda", precision], {})


def torch(options, model, batch, name, exchanges):
    layout, precision, compiled = TORCH[name]
    command = [options.python, ROOT / "benches/torch_gpu_step.py", model, str(batch), layout,
               precision, str(int(compiled)), str(int(exchanges))]
    return Arm(f"torch_{name}{'_exchanging' if exchanges else ''}", command, {})


def device_mb(arm):
    """Returns the GPU memory of a process, from the driver."""
    listed = command_output(["nvidia-smi", "--query-compute-apps=pid,used_memory",
                             "--format=csv,noheader,nounits"])
    rows = [line.split(",") for line in listed.splitlines()]
    return next((float(mb) for pid, mb in rows if int(pid) == arm.process.pid), None)


def our_kernels(model, batch, precision, steps=3):
    """Counts kernels per step, from CubeCL's log of launches."""
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory) / "launched"
        settings = f'[profiling]\nlogger = {{ level = "minimal", file = "{log}" }}\n'
        (pathlib.Path(directory) / "cubecl.toml").write_text(settings)
        command = [STEP, model, str(batch), "cuda", precision]
        counts = []
        for count in [1, 1 + steps]:
            log.unlink(missing_ok=True)
            subprocess.run(command, input="step\n" * count, text=True, check=True,
                           stdout=subprocess.DEVNULL, cwd=directory)
            counts.append(len(log.read_text().splitlines()))
        return (counts[1] - counts[0]) / steps


def asked(arm, question):
    print(question, file=arm.process.stdin, flush=True)
    return float(arm.process.stdout.readline())


def compare(options, model, batch):
    # Arms compile at the same time, in their first steps.
    with ThreadPoolExecutor() as pool:
        arms = [pool.submit(ours, model, batch, precision) for precision in PRECISIONS]
        theirs = [] if options.ours_alone else [
            pool.submit(torch, options, model, batch, name, exchanges)
            for name in options.torch.split(",") for exchanges in [False, True]]
    arms, theirs = ([arm.result() for arm in side] for side in (arms, theirs))
    for arm in arms + theirs:
        arm.step(record=False)
    for _ in range(options.rounds):
        for arm in arms + theirs:
            arm.step()
    row = {"model": model, "batch": batch}
    flops = asked(theirs[0], "flops") if theirs else None
    for arm in arms + theirs:
        step = summary(arm.wall_ms)
        row[arm.name] = {
            "wall_ms": step,
            "images_s": batch / step["median"] * 1e3,
            "flops_s": flops and flops / step["median"] * 1e3,
            "device_mb": device_mb(arm),
        }
    for arm in theirs:
        row[arm.name]["kernels"] = asked(arm, "kernels")
    with ThreadPoolExecutor() as pool:
        counts = pool.map(lambda precision: our_kernels(model, batch, precision), PRECISIONS)
    for count, arm in zip(counts, arms):
        row[arm.name]["kernels"] = count
    for arm in arms + theirs:
        arm.finish()
    return row


def endurance(model, batch, steps):
    """Measures memory of GPU and host after a tenth of the steps, and after all."""
    arm = ours(model, batch, "fp32")
    held = []
    for step in range(steps):
        arm.step(record=False)
        if step + 1 in (max(steps // 10, 1), steps):
            status = pathlib.Path(f"/proc/{arm.process.pid}/status").read_text()
            resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            held.append({"steps": step + 1, "device_mb": device_mb(arm),
                         "resident_mb": int(resident.split()[1]) * 1024 / 1e6})
    arm.finish()
    return held


def peaks(options):
    """Measured peaks of the GPU: products of 8,192³ in fp32, TF32 and bf16, and a copy."""
    script = ROOT / "benches/torch_gpu_step.py"
    return json.loads(command_output([options.python, script, "peaks"]))


def write(options, record):
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


def print_row(row):
    for name, found in row.items():
        if isinstance(found, dict):
            print(f"| {row['model']} | {row['batch']} | {name} | {found['wall_ms']['median']:.2f} "
                  f"| {found['images_s']:,.0f} | {found['device_mb'] or 0:,.0f} "
                  f"| {found['kernels']:.0f} |", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="mobilenet,resnet18")
    parser.add_argument("--batches", default="128,512")
    parser.add_argument("--torch", default=",".join(TORCH), help="PyTorch's variants")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, help="so many steps in a row, for leaks; nothing else")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--ours-alone", action="store_true", help="without PyTorch")
    parser.add_argument("--json", type=pathlib.Path, help="the record to write; never overwritten")
    options = parser.parse_args()
    if options.json and options.json.exists():
        sys.exit(f"{options.json} exists: name another file")
    return options


def main():
    options = arguments()
    found = gpu(options)
    build()
    models = options.models.split(",")
    batches = [int(batch) for batch in options.batches.split(",")]
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": found,
        "commit": commit(),
        "load": os.getloadavg()[0],
    }
    if options.steps:
        record["endurance"] = endurance(models[0], batches[-1], options.steps)
        print(json.dumps(record["endurance"], indent=1))
    else:
        record["peaks"] = None if options.ours_alone else peaks(options)
        record["rows"] = []
        print("| model | batch | arm | ms per step | images/s | GPU MB | kernels |")
        print("|" + " --- |" * 7, flush=True)
        for model in models:
            for batch in batches:
                record["rows"].append(compare(options, model, batch))
                print_row(record["rows"][-1])
                write(options, record)
    write(options, record)


if __name__ == "__main__":
    main()
