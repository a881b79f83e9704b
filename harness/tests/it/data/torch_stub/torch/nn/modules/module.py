_hooks = {}


class _Handle:
    def __init__(self, hook):
        self.hook = hook

    def remove(self):
        _hooks.pop(id(self.hook), None)


def register_module_forward_pre_hook(hook):
    _hooks[id(hook)] = hook
    handle = _Handle(hook)
    return handle


class Module:
    def __init__(self):
        self._parameters = []
        self._buffers = {}
        self._children = []

    def parameters(self):
        yield from self._parameters
        for child in self._children:
            yield from child.parameters()

    def named_buffers(self):
        yield from self._buffers.items()
        for index, child in enumerate(self._children):
            for name, buffer in child.named_buffers():
                yield f"{index}.{name}", buffer

    def __call__(self, *inputs, **keywords):
        for hook in list(_hooks.values()):
            hook(self, inputs)
        return self.forward(*inputs, **keywords)
