"""As much of PyTorch as its optimizers' hooks need: parameters, modules and steps without arithmetic."""

import time

__version__ = "0.0-stub"

float32 = "torch.float32"


class ops:
    aten = None


class jit:
    def is_tracing():
        return False


class Tensor:
    def __init__(self, *shape, requires_grad=False):
        self.shape = shape
        self.requires_grad = requires_grad
        self.dtype = float32

    class device:
        type = "cpu"

    def numel(self):
        count = 1
        for side in self.shape:
            count *= side
        return count

    def element_size(self):
        return 4


_records = True


def is_grad_enabled():
    return _records


class no_grad:
    def __enter__(self):
        global _records
        _records = False

    def __exit__(self, *_):
        global _records
        _records = True


def get_num_threads():
    return 1


def set_num_threads(_):
    pass


def ones(*shape, **_):
    return Tensor(*shape)


def mm(a, _):
    """Takes as long as a core does, and is counted as the real one is."""
    utils.flop_counter.add(2 * a.shape[0] ** 3)
    began = time.thread_time()
    while time.thread_time() - began < 0.02:
        pass


from torch import nn, optim, serialization, utils  # noqa: E402

save = serialization.save
