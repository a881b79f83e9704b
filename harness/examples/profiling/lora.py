"""Fine-tunes a transformer of GPT-2's shape (124 M parameters) with LoRA on random tokens.

An ordinary PyTorch training, which knows nothing of epochcost:

    epochcost profile --batch 2,8 -- python harness/examples/profiling/lora.py --batch {batch}
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class Lora(nn.Module):
    """A linear layer that stays as it is, and a trained product of two narrow matrices beside it."""

    def __init__(self, inner, rank=8):
        super().__init__()
        self.inner = inner
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.inner(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query = Lora(nn.Linear(width, width))
        self.key = nn.Linear(width, width)
        self.value = Lora(nn.Linear(width, width))
        self.out = nn.Linear(width, width)
        self.before_feed_forward = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        y = self.before_attention(x)
        query, key, value = (
            layer(y).view(split).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.before_feed_forward(x))


class Transformer(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, context):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=1 / math.sqrt(width))

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--vocabulary", type=int, default=50257)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = Transformer(
        options.layers, options.width, options.heads, options.vocabulary, context=1024
    )
    for name, parameter in model.named_parameters():
        parameter.requires_grad = ".up." in name or ".down." in name
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4)
    for step in range(options.steps):
        tokens = torch.randint(options.vocabulary, (options.batch, options.length + 1))
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
