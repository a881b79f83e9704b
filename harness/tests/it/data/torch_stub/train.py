"""A training that knows nothing of being profiled: its steps wait as long as a batch would take."""

import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--data", type=int, default=6_400)
options = parser.parse_args()


class Adapter(torch.nn.Module):
    """A small trainable part beside a large one that is not trained."""

    def __init__(self):
        super().__init__()
        self._parameters = [torch.Tensor(10, 2, requires_grad=True)]
        self._buffers = {"running_mean": torch.Tensor(6), "mask": torch.Tensor(100)}

    def forward(self, values):
        return values


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._parameters = [torch.Tensor(500, 2)]
        self._children = [Adapter()]

    def forward(self, values):
        return self._children[0](values)


model = Whole()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad])
# Draws with replacement, as many as the loop may ever need.
loader = torch.utils.data.DataLoader(range(options.data), options.batch // 2, sampler=range(10**10))


def batches():
    """Epoch after epoch."""
    while True:
        yield from loader


batch = batches()
for _ in range(options.steps):
    # Two micro-batches: a step has the samples of both.
    for _ in range(2):
        model(torch.Tensor(next(batch), 7))
    time.sleep(0.004 + 0.001 * options.batch)
    optimizer.step()
