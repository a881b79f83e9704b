"""PyTorch's side of `gpu.py`: torch_gpu_step.py MODEL BATCH LAYOUT PRECISION COMPILED EXCHANGES

Writes `ready`, then answers each line of its standard input by a number: `step`, the wall
milliseconds of a training step until the GPU has ended; `kernels`, the launches of a step;
`flops`, its operations. `torch_gpu_step.py peaks` prints what the GPU reaches.
"""

import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F


def allow_tf32(allowed):
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def best_seconds(work, times=20):
    found = []
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found)


def peaks():
    side = 8192
    found = {}
    for name, kind, tf32 in [("fp32", torch.float32, False), ("tf32", torch.float32, True),
                             ("bf16", torch.bfloat16, False)]:
        allow_tf32(tf32)
        factor = torch.randn(side, side, device="cuda", dtype=kind)
        found[f"{name}_flops_s"] = 2 * side**3 / best_seconds(lambda: factor @ factor)
    block = torch.empty(2**28, device="cuda")
    copy = torch.empty_like(block)
    found["copy_bytes_s"] = 2 * block.numel() * 4 / best_seconds(lambda: copy.copy_(block))
    return found


class Step:
    def __init__(self, model, batch, layout, precision, compiled, exchanges):
        sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "workloads/models/golden"))
        import make

        make.rectify = F.relu
        make.Rectify = torch.nn.ReLU
        make.Dropout = torch.nn.Dropout
        allow_tf32(precision == "tf32")
        torch.manual_seed(1)
        definition = make.MODELS[model]
        format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        self.enlarged = definition.enlarged
        self.network = definition.factory().cuda().to(memory_format=format)
        self.host_images = torch.rand((batch, *definition.images)).to(memory_format=format)
        self.images = self.host_images.cuda()
        self.labels = torch.arange(batch).cuda() % 10
        self.exchanges = exchanges
        parameters = self.network.parameters()
        self.host_parameters = torch.cat([p.detach().flatten() for p in parameters]).cpu()
        self.forward = torch.compile(self.network) if compiled else self.network

    def sent(self):
        """Parameters and images, with the values that our step receives."""
        flat = self.host_parameters.cuda()
        taken = 0
        with torch.no_grad():
            for parameter in self.network.parameters():
                values = flat[taken:taken + parameter.numel()].view(parameter.shape)
                parameter.copy_(values)
                taken += parameter.numel()
        return self.host_images.cuda()

    def __call__(self):
        images = self.sent() if self.exchanges else self.images
        for parameter in self.network.parameters():
            parameter.grad = None
        F.cross_entropy(self.forward(self.enlarged(images)), self.labels).backward()
        if self.exchanges:
            torch.cat([p.grad.flatten() for p in self.network.parameters()]).cpu()
        torch.cuda.synchronize()

    def kernels(self):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            self()
        names = [event.name for event in profiler.events()]
        return sum(not name.startswith(("Memcpy", "Memset")) for name in names)

    def flops(self):
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            F.cross_entropy(self.network(self.enlarged(self.images)), self.labels).backward()
        return counter.get_total_flops()


def main():
    if sys.argv[1] == "peaks":
        print(json.dumps(peaks()))
        return
    model, batch, layout, precision, compiled, exchanges = sys.argv[1:]
    step = Step(model, int(batch), layout, precision, compiled == "1", exchanges == "1")
    print("ready", flush=True)
    for line in sys.stdin:
        question = line.strip()
        if question in ("kernels", "flops"):
            print(getattr(step, question)(), flush=True)
            continue
        start = time.perf_counter()
        step()
        print((time.perf_counter() - start) * 1e3, flush=True)


if __name__ == "__main__":
    main()
