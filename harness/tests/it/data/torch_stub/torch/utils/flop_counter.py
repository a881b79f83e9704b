"""As PyTorch's counter of operations, whose tracker of modules fails some programs."""


class _Tracker:
    def __enter__(self):
        raise RuntimeError("the program calls autograd.grad")


def add(flops):
    """Counts operations, if any are counted."""
    if FlopCounterMode.running:
        FlopCounterMode.running.flop_counts["Global"]["mm"] += flops


class FlopCounterMode:
    running = None

    def __init__(self, display, custom_mapping):
        self.flop_registry = custom_mapping
        self.flop_counts = {"Global": {}}
        self.mod_tracker = _Tracker()

    def __enter__(self):
        self.mod_tracker.__enter__()
        self.flop_counts["Global"]["mm"] = 4000
        FlopCounterMode.running = self

    def __exit__(self, *_):
        FlopCounterMode.running = None

    def get_flop_counts(self):
        return self.flop_counts

    def get_total_flops(self):
        return sum(self.flop_counts["Global"].values())
