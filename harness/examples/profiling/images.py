"""Trains ResNet-18 or MobileNet for images of 32 x 32 on random ones, as the papers do on CIFAR-10;
or any model of torchvision, where that is installed.

An ordinary PyTorch training, which knows nothing of epochcost:

    epochcost profile --batch 8,32 -- python harness/examples/profiling/images.py --batch {batch}
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def normalised(inputs, outputs, side, stride=1, groups=1):
    return (
        nn.Conv2d(inputs, outputs, side, stride, side // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Sequential(*normalised(inputs, outputs, 3, stride))
        self.second = nn.Sequential(*normalised(outputs, outputs, 3))
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Sequential(*([] if same else normalised(inputs, outputs, 1, stride)))

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


def resnet18(classes=10):
    layers, inputs = [*normalised(3, 64, 3), nn.ReLU()], 64
    for outputs, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        layers += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def mobilenet(classes=10):
    layers, inputs = [*normalised(3, 32, 3), nn.ReLU()], 32
    widths = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for outputs, stride in [*widths, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        layers += [*normalised(inputs, inputs, 3, stride, groups=inputs), nn.ReLU()]
        layers += [*normalised(inputs, outputs, 1), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, classes))


def of_torchvision(name):
    import torchvision

    return getattr(torchvision.models, name)()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18", help="resnet18, mobilenet or torchvision:NAME")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--side", type=int, default=32, help="pixels of a side of the images")
    parser.add_argument("--epochs", type=int, default=1000)
    options = parser.parse_args()
    torch.manual_seed(1)
    images = torch.rand(max(4 * options.batch, 64), 3, options.side, options.side)
    labels = torch.randint(10, (len(images),))
    loader = DataLoader(
        TensorDataset(images, labels), batch_size=options.batch, shuffle=True, drop_last=True
    )
    kind, _, name = options.model.rpartition(":")
    own = {"resnet18": resnet18, "mobilenet": mobilenet}
    model = of_torchvision(name) if kind == "torchvision" else own[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(options.epochs):
        for inputs, expected in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), expected)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
