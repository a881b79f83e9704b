"""Golden gradients: what PyTorch computes, in float64 and in float32.

Writes one JSON file per model, of all or of those named, beside this script. Parameters, images and labels
come from the hash of `epochcost_kernels::hash`, by operations that are exact or
exactly rounded, so that the Rust test makes the very same float32 inputs.
"""

import dataclasses
import itertools
import json
import math
import pathlib
import sys
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn


@dataclasses.dataclass(frozen=True)
class Golden:
    """A model in PyTorch, and what a step of it is given."""

    factory: Callable[[], nn.Module]
    # Channels, height and width of the images that its first layer reads.
    shape: tuple[int, int, int]
    # Images per step.
    batch: int
    # Number of seeds, a step each.
    seeds: int = 5
    # Of a large gradient, entries are projected in steps of so many, which no shape divides.
    stride: int = 1
    # A value near zero may fall on the other side of a ReLU in float32, which moves the
    # whole gradient by a thousandth or more. Where a margin is given, only seeds are
    # taken whose values all keep that distance from zero. MobileNet and ResNet-50 meet too many such
    # values to avoid them; there a large batch evens them out.
    margin: float = 0.0
    # Images that the model enlarges to its input, where they are not of its size.
    given: tuple[int, int, int] | None = None

    @property
    def images(self):
        return self.given or self.shape

    def enlarged(self, images):
        """Images as the model's first layer reads them."""
        if self.images == self.shape:
            return images
        images = F.interpolate(images, size=self.shape[1:], mode="bilinear", align_corners=False)
        return images.expand(len(images), *self.shape)


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


class Padded(nn.Module):
    """A shortcut by every second pixel and channels of zeros: option A of He et al."""

    def __init__(self, added, stride):
        super().__init__()
        self.added, self.stride = added, stride

    def forward(self, x):
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, padded=False):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if padded:
            self.shortcut = Padded(outputs - inputs, stride)
        elif stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = rectify(self.first_norm(self.first(x)))
        return rectify(self.second_norm(self.second(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, stages, padded=False):
        super().__init__()
        inputs = stages[0][0]
        layers = [nn.Conv2d(3, inputs, 3, 1, 1, bias=False), nn.BatchNorm2d(inputs), Rectify()]
        for stage, (outputs, blocks) in enumerate(stages):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Block(inputs, outputs, stride, padded))
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


class Vgg11Cifar(nn.Module):
    WIDTHS = [64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None]

    def __init__(self):
        super().__init__()
        layers, inputs = [], 3
        for width in self.WIDTHS:
            if width is None:
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(inputs, width, 3, 1, 1), nn.BatchNorm2d(width), Rectify()]
                inputs = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(inputs, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Dropout(nn.Module):
    """torch's dropout, of channels-last values, with what the hash draws."""

    seed, layers = 0, 0

    def __init__(self, share):
        super().__init__()
        self.share = np.float32(share)

    def forward(self, x):
        seed = mix_scalar(Dropout.seed, Dropout.layers)
        Dropout.layers += 1
        unit = (mix(seed, indices(x.numel())) >> U64(40)).astype(np.float32) * np.float32(2.0**-24)
        factors = np.where(unit < self.share, np.float32(0), 1 / (np.float32(1) - self.share))
        factors = torch.from_numpy(factors).to(x.dtype)
        if x.dim() == 4:
            factors = factors.reshape(x.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
        return x * factors.reshape(x.shape)


def of_torchvision(build):
    """The model of that name, with this file's ReLU and dropout, and how its tensors begin."""

    def replace(module):
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, Rectify())
            elif isinstance(child, nn.Dropout):
                setattr(module, name, Dropout(child.p))
            else:
                replace(child)

    def factory():
        model = build()
        replace(model)
        if not isinstance(model, torchvision.models.ResNet):
            squeezed = isinstance(model, torchvision.models.SqueezeNet)
            for module in model.modules():
                if isinstance(module, nn.Linear) or (squeezed and module is model.classifier[1]):
                    module.bound = math.sqrt(3.0) * 0.01
                elif isinstance(module, nn.Conv2d):
                    fans = nn.init._calculate_fan_in_and_fan_out(module.weight)
                    module.bound = math.sqrt(6.0 / fans[0 if squeezed else 1])
        else:
            for module in model.modules():
                if isinstance(module, nn.Conv2d):
                    fans = nn.init._calculate_fan_in_and_fan_out(module.weight)
                    module.bound = math.sqrt(6.0 / fans[1])
        return model

    return factory


def vgg11(classes):
    return of_torchvision(lambda: torchvision.models.vgg11(num_classes=classes, init_weights=False))


STAGES = [(64, 2), (128, 2), (256, 2), (512, 2)]
CIFAR = (3, 32, 32)
# One entry for each model of `workloads/architectures`.
MODELS = {
    "mobilenet": Golden(MobileNet, CIFAR, batch=32),
    "resnet18": Golden(lambda: ResNet(STAGES), CIFAR, batch=2, margin=3e-6),
    "lenet5": Golden(LeNet5, (1, 28, 28), batch=8),
    "resnet32": Golden(
        lambda: ResNet([(16, 5), (32, 5), (64, 5)], padded=True), CIFAR, batch=2, margin=3e-6
    ),
    "resnet34": Golden(
        lambda: ResNet([(64, 3), (128, 4), (256, 6), (512, 3)]),
        CIFAR,
        batch=1,
        seeds=3,
        stride=7,
        margin=3e-6,
    ),
    "resnet50": Golden(
        of_torchvision(lambda: torchvision.models.resnet50(num_classes=10)),
        CIFAR,
        batch=64,
        seeds=3,
        stride=7,
    ),
    "squeezenet1_1": Golden(
        of_torchvision(lambda: torchvision.models.squeezenet1_1(num_classes=10)),
        CIFAR,
        batch=16,
        given=(1, 28, 28),
    ),
    "mobilenet_v3_small": Golden(
        of_torchvision(lambda: torchvision.models.mobilenet_v3_small(num_classes=10)),
        CIFAR,
        batch=32,
    ),
    "vgg11": Golden(
        vgg11(1000), (3, 224, 224), batch=1, seeds=1, stride=61, given=(1, 28, 28)
    ),
    "vgg11_10_classes": Golden(
        vgg11(10), (3, 224, 224), batch=1, seeds=1, stride=61, given=(3, 32, 32)
    ),
    "vgg11_at_32": Golden(vgg11(1000), CIFAR, batch=2, seeds=1, stride=61, margin=3e-6),
    "vgg11_cifar": Golden(Vgg11Cifar, CIFAR, batch=4, stride=7),
}


def initial(model):
    """Of each parameter tensor its size, and what `initial_parameters` draws or sets."""
    pieces = []
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            if hasattr(module, "bound"):
                pieces.append((module.weight.numel(), np.float32(module.bound), None))
                if module.bias is not None:
                    pieces.append((module.bias.numel(), None, 0.0))
                continue
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
    definition = MODELS[name]
    given, batch = definition.images, definition.batch
    Dropout.seed, Dropout.layers = seed, 0
    model = definition.factory().to(dtype).train()
    flat = torch.from_numpy(parameters(model, seed)).to(dtype)
    nn.utils.vector_to_parameters(flat, model.parameters())
    images = np.float32(2) * symmetric(mix_scalar(IMAGES, seed), batch * math.prod(given))
    images = torch.from_numpy(images).to(dtype).reshape(batch, *given)
    images = definition.enlarged(images)
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
        if nearest_to_zero >= MODELS[name].margin:
            taken.append(seed)
        if len(taken) == MODELS[name].seeds:
            return taken


def projections(vectors, stride):
    """Sums of every `stride`th entry under random signs: + where the hash's bit is set."""
    taken = indices(vectors.shape[1])[::stride]
    vectors = vectors[:, ::stride]
    length = vectors.shape[1]
    sums = np.zeros((SIGN_WORDS, len(vectors), 64))
    chunk = 1 << 17
    for start in range(0, length, chunk):
        part = vectors[:, start : start + chunk]
        index = taken[start : start + chunk]
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
    projected = projections(np.stack([exact, single]), MODELS[name].stride)
    distance = np.linalg.norm(projected[1] - projected[0]) / np.linalg.norm(projected[0])
    true_distance = np.linalg.norm(single - exact) / np.linalg.norm(exact)
    print(
        f"{name} seed {seed}: loss {loss:.6f}, float32 {distance:.2e} "
        f"({true_distance:.2e} in full)",
        flush=True,
    )
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
            "batch": MODELS[name].batch,
            "images": MODELS[name].images,
            "stride": MODELS[name].stride,
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "numpy": np.__version__,
            "seeds": [golden(name, seed) for seed in seeds(name)],
        }
        path = pathlib.Path(__file__).with_name(f"{name}.json")
        path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
