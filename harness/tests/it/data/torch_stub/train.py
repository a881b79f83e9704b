"""A training that knows nothing of being profiled: its steps wait as long as a batch would take."""

import argparse
import time

import torch
from torch.utils import flop_counter

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--data", type=int, default=6_400)
parser.add_argument("--every", type=int, default=100_000, help="one of so many steps does more")
parser.add_argument("--rollouts", action="store_true", help="calls in evaluation mode before each step")
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
for step in range(options.steps):
    if options.rollouts:
        model.training = False
        time.sleep(0.01)
        with torch.no_grad():
            model(torch.Tensor(1, 7))
        model.training = True
    # Two micro-batches: a step has the samples of both.
    for _ in range(2):
        model(torch.Tensor(next(batch), 7))
    if step % options.every == 0:
        model(torch.Tensor(2, 7))
        flop_counter.add(4000)
        time.sleep(0.04)
    time.sleep(0.004 + 0.001 * options.batch)
    optimizer.step()
