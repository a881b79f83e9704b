"""PyTorch's side of the benchmark: one training step a line of standard input.

    torch_step.py MODEL BATCH LAYOUT THREADS

The networks are those of the golden gradients (`workloads/models/golden/make.py`)
with plain ReLUs. Each line read is answered by one line of JSON: the CPU (user and
system) and wall milliseconds of one forward and backward pass, gradients set to
None between two of them as PyTorch advises. At the end of the input comes a last
line: peak resident memory, versions.
"""

import time

STARTED = time.time()

import json
import pathlib
import resource
import sys

model, batch, layout, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "workloads/models/golden"))

import torch
import torch.nn.functional as F

IMPORTED = time.time()

import make

make.rectify = F.relu
make.Rectify = torch.nn.ReLU
torch.set_num_threads(threads)
torch.manual_seed(1)
factory, shape = make.MODELS[model]
network = factory()
images = torch.rand((batch, *shape))
labels = torch.arange(batch) % 10
if layout == "channels_last":
    network = network.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)


def step():
    for parameter in network.parameters():
        parameter.grad = None
    F.cross_entropy(network(images), labels).backward()


for line in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu_ms": cpu * 1e3, "wall_ms": wall * 1e3, "ended": time.time()}), flush=True)

peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
versions = {
    "pytorch": torch.__version__,
    "onednn": torch.backends.mkldnn.is_available(),
    "mkl": torch.backends.mkl.is_available(),
    "capability": torch.backends.cpu.get_cpu_capability(),
    "python": sys.version.split()[0],
}
print(json.dumps({"peak_mib": peak, "import_s": IMPORTED - STARTED, "versions": versions}))
