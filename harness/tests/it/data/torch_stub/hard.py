"""A training of everything that is mistaken for a step's samples or its time: a transform that is a module,
a model that is called three times per batch, an evaluation after each step, a checkpoint over another one,
and the size of a terminal."""

import argparse
import os
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--full", action="store_true", help="every step takes one graph")
parser.add_argument("--delayed", action="store_true", help="every second batch trains an actor, too")
args = parser.parse_args()

columns, lines = os.get_terminal_size(0)
assert columns == 80 and lines == 24


class Normalize(torch.nn.Module):
    def forward(self, image):
        return image


class Discriminator(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._parameters = [torch.Tensor(10, 2, requires_grad=True)]

    def forward(self, values, edges=None):
        return values


normalize, model = Normalize(), Discriminator()
optimizer = torch.optim.SGD(model.parameters())
nodes, edges = torch.Tensor(2708, 7), torch.Tensor(2, 30)
while args.full:
    model(nodes, edges)
    time.sleep(0.002)
    optimizer.step()
actor = Discriminator()
later = torch.optim.SGD(actor.parameters()) if args.delayed else None
for step in range(10_000 if args.delayed else 0):
    batch = torch.Tensor(8, 7)
    model(batch)
    time.sleep(0.002)
    optimizer.step()
    if step % 2:
        actor(batch)
        later.step()
for epoch in range(args.epochs):
    for batch in torch.utils.data.DataLoader(range(2 * args.batch), args.batch):
        for _ in range(batch):
            normalize(torch.Tensor(3, 5, 5))
        for _ in range(3):
            model(torch.Tensor(batch, 7))
        time.sleep(0.002)
        optimizer.step()
    model.training = False
    with torch.no_grad():
        for _ in range(10):
            normalize(torch.Tensor(3, 5, 5))
            model(torch.Tensor(100, 7))
    time.sleep(0.3)
    with torch.no_grad():
        model(torch.Tensor(100, 7))
    model.training = True
    torch.save("untrained", "model.pt")
