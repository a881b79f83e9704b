"""Golden gradients: what PyTorch computes, in float64 and in float32.

Writes one JSON file a model, of all or of those named, beside this script. Parameters, images and labels
come from the hash of `epochcost_kernels::hash`, by operations that are exact or
exactly rounded, so that the Rust test makes the very same float32 inputs.
"""

import itertools
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SEEDS = 5
BATCH = {"mobilenet": 32, "resnet18": 2, "lenet5": 8}

# A value near zero may fall on the other side of a ReLU in float32, which moves the
# whole gradient by a thousandth or more. Where a margin is given, only seeds are
# taken whose values all keep that distance from zero. MobileNet meets too many such
# values to avoid them; there a large batch evens them out.
MARGIN = {"mobilenet": 0.0, "resnet18": 3e-6, "lenet5": 0.0}

# Seeds of the hash, each for one purpose; the Rust test has the same.
PERTURBATION, IMAGES, LABELS, SIGNS, SAMPLES = 101, 102, 103, 200, 300
SIGN_WORDS = 4  # of 64 projections each
SAMPLE_COUNT = 64

U64 = np.uint64


def splitmix64(x):
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


def mix(seed, index):
    return splitmix64(U64(seed) ^ splitmix64(index + U64(0x9E3779B97F4A7C15)))


def indices(length):
    return np.arange(length, dtype=np.uint64)


def symmetric(seed, length):
    """Float32 values in [-1, 1), exact."""
    unit = (mix(seed, indices(length)) >> U64(40)).astype(np.float32) * np.float32(2.0**-24)
    return np.float32(2) * unit - np.float32(1)


nearest_to_zero = math.inf


def rectify(x):
    global nearest_to_zero
    nearest_to_zero = min(nearest_to_zero, x.detach().abs().min().item())
    return F.relu(x)


class Rectify(nn.Module):
    def forward(self, x):
        return rectify(x)


class MobileNet(nn.Module):
    WIDTHS = [64, (128, 2), 128, (256, 2), 256, (512, 2), 512, 512, 512, 512, 512, (1024, 2), 1024]

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), Rectify()]
        inputs = 32
        for width in self.WIDTHS:
            outputs, stride = width if isinstance(width, tuple) else (width, 1)
            layers += [
                nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
                nn.BatchNorm2d(inputs),
                Rectify(),
                nn.Conv2d(inputs, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
                Rectify(),
            ]
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(inputs, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = rectify(self.first_norm(self.first(x)))
        return rectify(self.second_norm(self.second(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), Rectify()]
        inputs = 64
        for outputs, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
            layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(inputs, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 5, padding=2)
        self.second = nn.Conv2d(6, 16, 5)
        self.hidden = nn.ModuleList([nn.Linear(400, 120), nn.Linear(120, 84)])
        self.classifier = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(rectify(self.first(x)), 2)
        x = F.max_pool2d(rectify(self.second(x)), 2).flatten(1)
        for layer in self.hidden:
            x = rectify(layer(x))
        return self.classifier(x)


MODELS = {
    "mobilenet": (MobileNet, (3, 32, 32)),
    "resnet18": (ResNet18, (3, 32, 32)),
    "lenet5": (LeNet5, (1, 28, 28)),
}


def initial(model):
    """A function of a flat range and a seed: what `initial_parameters` draws."""
    pieces = []
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            fan_in = math.prod(module.weight.shape[1:])
            bound = np.float32(1.0 / math.sqrt(fan_in))
            pieces += [(p.numel(), bound, None) for p in module.parameters(recurse=False)]
        elif isinstance(module, nn.BatchNorm2d):
            pieces += [(module.num_features, None, 1.0), (module.num_features, None, 0.0)]
    return pieces


def parameters(model, seed):
    """Initial parameters of the seed, plus 1/32 of other values in [-1, 1)."""
    pieces = initial(model)
    length = sum(size for size, _, _ in pieces)
    assert length == sum(p.numel() for p in model.parameters())
    values = symmetric(seed, length)
    start = 0
    for size, bound, constant in pieces:
        part = values[start : start + size]
        part[:] = bound * part if constant is None else np.float32(constant)
        start += size
    return values + np.float32(2.0**-5) * symmetric(mix_scalar(PERTURBATION, seed), length)


def mix_scalar(seed, index):
    return int(mix(seed, np.array([index], dtype=np.uint64))[0])


def forward(name, seed, dtype):
    """The model after one training pass, and its loss."""
    factory, shape = MODELS[name]
    model = factory().to(dtype).train()
    flat = torch.from_numpy(parameters(model, seed)).to(dtype)
    nn.utils.vector_to_parameters(flat, model.parameters())
    batch = BATCH[name]
    images = np.float32(2) * symmetric(mix_scalar(IMAGES, seed), batch * math.prod(shape))
    images = torch.from_numpy(images).to(dtype).reshape(batch, *shape)
    labels = (mix(mix_scalar(LABELS, seed), indices(batch)) % U64(10)).astype(np.int64)
    return model, F.cross_entropy(model(images), torch.from_numpy(labels))


def gradient(name, seed, dtype):
    """One training step: loss, flat gradient and flat running statistics."""
    model, loss = forward(name, seed, dtype)
    loss.backward()
    flat = torch.cat([p.grad.flatten() for p in model.parameters()]).double().numpy()
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    statistics = [s.double().numpy() for m in norms for s in (m.running_mean, m.running_var)]
    return loss.item(), flat, np.concatenate(statistics) if statistics else np.zeros(0)


def seeds(name):
    """The first seeds, from 1, that keep the model's margin."""
    global nearest_to_zero
    taken = []
    for seed in itertools.count(1):
        nearest_to_zero = math.inf
        with torch.no_grad():
            forward(name, seed, torch.float64)
        if nearest_to_zero >= MARGIN[name]:
            taken.append(seed)
        if len(taken) == SEEDS:
            return taken


def projections(vectors):
    """Sums of the vectors' entries under random signs: + where the hash's bit is set."""
    length = vectors.shape[1]
    sums = np.zeros((SIGN_WORDS, len(vectors), 64))
    chunk = 1 << 17
    for start in range(0, length, chunk):
        part = vectors[:, start : start + chunk]
        index = indices(length)[start : start + chunk]
        for word in range(SIGN_WORDS):
            bits = np.unpackbits(
                mix(SIGNS + word, index).view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"
            )
            sums[word] += part @ (2.0 * bits - 1.0)
    return np.concatenate(list(sums), axis=1)


def samples(vector):
    if len(vector) == 0:
        return []
    at = [mix_scalar(SAMPLES, k) * len(vector) >> 64 for k in range(SAMPLE_COUNT)]
    return [float(vector[i]) for i in at]


def golden(name, seed):
    loss, exact, statistics = gradient(name, seed, torch.float64)
    _, single, _ = gradient(name, seed, torch.float32)
    projected = projections(np.stack([exact, single]))
    distance = np.linalg.norm(projected[1] - projected[0]) / np.linalg.norm(projected[0])
    true_distance = np.linalg.norm(single - exact) / np.linalg.norm(exact)
    print(f"{name} seed {seed}: loss {loss:.6f}, float32 {distance:.2e} ({true_distance:.2e} in full)")
    return {
        "seed": seed,
        "loss": loss,
        "gradient_norm": float(np.linalg.norm(exact)),
        "float32_distance": float(distance),
        "projections": [float(p) for p in projected[0]],
        "gradient_samples": samples(exact),
        "statistics_samples": samples(statistics),
    }


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        record = {
            "model": name,
            "batch": BATCH[name],
            "torch": torch.__version__,
            "numpy": np.__version__,
            "seeds": [golden(name, seed) for seed in seeds(name)],
        }
        path = pathlib.Path(__file__).with_name(f"{name}.json")
        path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
