class Module:
    training = True

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
        return self.forward(*inputs, **keywords)
