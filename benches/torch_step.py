"""PyTorch's side of the benchmark: torch_step.py MODEL BATCH LAYOUT THREADS

Writes `ready` when the first step could begin, then answers each line of its standard
input by a training step and its wall milliseconds. The networks are those of the golden
gradients (`workloads/models/golden/make.py`) with plain ReLUs and dropout; gradients are set to None
between two steps, as PyTorch advises.
"""

import pathlib
import sys
import time

model, batch, layout, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "workloads/models/golden"))

import make  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

make.rectify = F.relu
make.Rectify = torch.nn.ReLU
make.Dropout = torch.nn.Dropout
torch.set_num_threads(threads)
torch.manual_seed(1)
definition = make.MODELS[model]
network = definition.factory()
images = torch.rand((batch, *definition.images))
labels = torch.arange(batch) % 10
if layout == "channels_last":
    network = network.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    for parameter in network.parameters():
        parameter.grad = None
    loss = F.cross_entropy(network(definition.enlarged(images)), labels)
    loss.backward()
    print((time.perf_counter() - start) * 1e3, flush=True)
