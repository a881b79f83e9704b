import time

import torch

_before = []
_after = []


def register_optimizer_step_pre_hook(hook):
    _before.append(hook)


def register_optimizer_step_post_hook(hook):
    _after.append(hook)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]
        self.state = {}

    def step(self, closure=None):
        # As in PyTorch, which wraps the unbound method.
        arguments = (self, closure) if closure else (self,)
        for hook in _before:
            hook(self, arguments, {})
        time.sleep(0.001)
        for parameter in self.param_groups[0]["params"]:
            self.state.setdefault(parameter, {"momentum": torch.Tensor(*parameter.shape)})
        for hook in _after:
            hook(self, arguments, {})


class SGD(Optimizer):
    pass
