"""Reports the training steps of a program to `epochcost profile` (docs/profiling.md).

PyTorch's steps are reported without a changed line: hooks of all optimizers are registered when the
program imports torch, which is never imported here. Any other framework calls `step()` after each step:

    import epochcost_profile
    epochcost_profile.step(samples=32)

Nothing in here fails the program: a mistake becomes a line `problem`.
"""

import importlib.util
import os
import sys
import time

PIPE = "EPOCHCOST_PROFILE_PIPE"

# The steps after the first one: one with its operations counted, one with its samples counted.
_WARM_UP = 3
# Side of the matrices whose product measures the machine.
_SIDE = 1024
_PRODUCTS = 6

_pipe = None
_last = None


def _report(word, **fields):
    """Writes one line; does nothing without a pipe."""
    global _pipe
    path = os.environ.get(PIPE)
    if not path:
        return
    known = [f"{name}={value}" for name, value in fields.items() if value is not None]
    line = " ".join([word, f"process={os.getpid()}", *known]) + "\n"
    _write(path, line)


def _say(word, text):
    path = os.environ.get(PIPE)
    if path:
        _write(path, f"{word} {' '.join(str(text).split())[:1000]}\n")


def _write(path, line):
    global _pipe
    try:
        if _pipe is None:
            _pipe = os.open(path, os.O_WRONLY)
        os.write(_pipe, line.encode())
    except OSError:
        # The reader has ended.
        pass


def step(samples=None):
    """Marks the end of a training step of `samples` samples."""
    global _last
    now = time.perf_counter()
    if _last is None:
        _report("begin", samples=samples)
    else:
        _report("step", seconds=now - _last, samples=samples, peak_mb=_peak_mb())
    _last = time.perf_counter()


def _peak_mb():
    """Returns the most memory that was resident, MB of 2**20 bytes."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _queued():
    """Returns the seconds that the main thread has waited for a core; 0 where the kernel does not say."""
    try:
        with open("/proc/self/schedstat") as statistics:
            return int(statistics.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _guarded(method):
    """Turns an error into a line, and reports no more."""

    def guarded(self, *arguments):
        if self.failed:
            return
        try:
            method(self, *arguments)
        except Exception as error:
            self.failed = True
            _say("problem", f"{method.__name__}: {error!r}")

    return guarded


class _Steps:
    """The steps of the first optimizer that takes one; those of others are part of its steps."""

    def __init__(self):
        self.failed = False
        self.main = None
        self.optimizers = []
        self.count = 0
        self.last = None
        self.began = None
        self.optimizing = 0.0
        self.waiting = 0.0
        # Waits for a core: at the end of the last step, and in the optimizer or for data since.
        self.last_queued = 0.0
        self.began_queued = 0.0
        self.elsewhere_queued = 0.0
        self.samples = None
        self.operations = None
        self.device = "cpu"
        # Of the data loader that gave the last batch before the model is described.
        self.epoch_samples = None

    def now(self):
        """Returns the time after everything that a GPU still computes."""
        if self.device == "cuda":
            sys.modules["torch"].cuda.synchronize()
        return time.perf_counter()

    @_guarded
    def before(self, optimizer, arguments, keywords):
        if self.main is None:
            self.main = optimizer
        if not any(known is optimizer for known in self.optimizers):
            self.optimizers.append(optimizer)
            self.device = _device(self.optimizers)
        # With a closure, the passes over the model are part of the optimizer's step.
        # PyTorch hands the optimizer over as the first argument, too.
        positional = [value for value in arguments if value is not optimizer]
        closure = positional[0] if positional else (keywords or {}).get("closure")
        self.began = self.now() if closure is None else None
        self.began_queued = _queued()

    @_guarded
    def after(self, optimizer, arguments, keywords):
        now, queued = self.now(), _queued()
        if self.began is not None:
            self.optimizing += now - self.began
            self.elsewhere_queued += queued - self.began_queued
        if optimizer is not self.main:
            return
        self.count += 1
        samples = self.samples.taken() if self.samples else None
        if self.last is None:
            _report("begin")
        else:
            _report(
                "step",
                seconds=now - self.last,
                optimizer=self.optimizing,
                data=self.waiting,
                queue=max(0.0, queued - self.last_queued - self.elsewhere_queued),
                samples=samples,
                peak_mb=self.peak_mb(),
                warm=1 if self.count <= _WARM_UP else None,
            )
        self.between()
        self.optimizing = self.waiting = self.elsewhere_queued = 0.0
        self.last, self.last_queued = self.now(), _queued()

    def between(self):
        """Does what the first steps are for."""
        if self.count == 1:
            self.samples = _Samples()
            self.operations = _operations()
        elif self.count == 2:
            self.describe()
            counted = _counted(self.operations)
            self.operations = None
            if counted:
                _report("work", flops=counted)
            if self.device == "cpu":
                rate = _product_rate()
                if rate:
                    _report("rate", flops_per_s=rate)
        elif self.count == _WARM_UP and self.samples:
            self.samples.stop()
            self.samples = None

    def describe(self):
        torch = sys.modules["torch"]
        trainable = _trainable(self.optimizers)
        scalars = sum(parameter.numel() for parameter in trainable)
        largest = max(trainable, key=lambda parameter: parameter.numel(), default=None)
        modules = self.samples.modules if self.samples else []
        whole, statistics = _whole(modules, trainable)
        threads = getattr(torch, "get_num_threads", None)
        name = None
        if self.device == "cuda":
            name = torch.cuda.get_device_name().replace(" ", "_")
        _report(
            "model",
            framework=f"torch-{getattr(torch, '__version__', 'unknown')}",
            trainable=scalars,
            parameters=whole,
            statistics=statistics,
            epoch_samples=self.epoch_samples,
            dtype=str(largest.dtype).replace("torch.", "") if largest is not None else None,
            trainable_bytes=sum(p.numel() * p.element_size() for p in trainable),
            optimizer_bytes=_state_bytes(self.optimizers),
            device=self.device,
            device_name=name,
            threads=threads() if threads else None,
        )
        if self.samples and self.samples.source:
            _say("note", f"samples: first dimension of the first tensor that {self.samples.source} takes")

    def peak_mb(self):
        if self.device == "cuda":
            return sys.modules["torch"].cuda.max_memory_allocated() / 2**20
        return _peak_mb()

    def loading(self, seconds, queued):
        self.waiting += seconds
        self.elsewhere_queued += queued


class _Samples:
    """Samples of a step: the first dimension of what the outermost module takes, whenever it is called
    while gradients are recorded."""

    def __init__(self):
        self.root = None
        self.pending = False
        self.total = 0
        self.source = None
        self.modules = []
        self.handle = None
        module = sys.modules.get("torch.nn.modules.module")
        register = getattr(module, "register_module_forward_pre_hook", None)
        if register:
            self.handle = register(self.called)

    def called(self, module, inputs):
        torch = sys.modules["torch"]
        if not torch.is_grad_enabled():
            return
        if not any(known is module for known in self.modules):
            self.modules.append(module)
        if self.root is None:
            self.root = module
        if module is self.root:
            self.pending = True
        if not self.pending:
            return
        for value in inputs if isinstance(inputs, tuple) else (inputs,):
            shape = getattr(value, "shape", None)
            if shape:
                self.total += int(shape[0])
                self.source = type(module).__name__
                self.pending = False
                return

    def taken(self):
        total, self.total, self.root, self.pending = self.total, 0, None, False
        return total or None

    def stop(self):
        if self.handle:
            self.handle.remove()
            self.handle = None


def _parameters(optimizers):
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]


def _trainable(optimizers):
    found = {}
    for parameter in _parameters(optimizers):
        if getattr(parameter, "requires_grad", True):
            found[id(parameter)] = parameter
    return list(found.values())


def _device(optimizers):
    for parameter in _parameters(optimizers):
        return getattr(getattr(parameter, "device", None), "type", "cpu")
    return "cpu"


def _whole(modules, trainable):
    """Returns the scalars of all modules that were called, and their running statistics."""
    parameters = {id(parameter): parameter.numel() for parameter in trainable}
    statistics = {}
    for module in modules:
        for parameter in module.parameters():
            parameters[id(parameter)] = parameter.numel()
        for name, buffer in module.named_buffers():
            if name.rsplit(".", 1)[-1] in ("running_mean", "running_var"):
                statistics[id(buffer)] = buffer.numel()
    return sum(parameters.values()), sum(statistics.values())


def _epoch_samples(loader):
    """Returns the samples of an epoch of a data loader's iterator; none where it does not know them."""
    sampler = getattr(getattr(loader, "_index_sampler", None), "sampler", None)
    for source in (sampler, getattr(loader, "_dataset", None)):
        try:
            return len(source)
        except (TypeError, NotImplementedError, AttributeError):
            continue
    return None


def _state_bytes(optimizers):
    total = 0
    for optimizer in optimizers:
        for state in optimizer.state.values():
            values = state.values() if hasattr(state, "values") else ()
            for value in values:
                # A scalar is no vector, only the number of steps.
                if hasattr(value, "element_size") and value.numel() > 1:
                    total += value.numel() * value.element_size()
    return total


def _operations():
    """Returns a counter of operations that is already counting; none if there is none."""
    try:
        from torch.utils.flop_counter import FlopCounterMode

        counter = FlopCounterMode(display=False)
        counter.__enter__()
        return counter
    except Exception as error:
        _say("note", f"operations were not counted: {error!r}")
        return None


def _counted(counter):
    if counter is None:
        return None
    try:
        counter.__exit__(None, None, None)
        by_name = {}
        for operator, count in counter.get_flop_counts().get("Global", {}).items():
            name = str(operator).rsplit(".", 1)[-1].lstrip("_")
            by_name[name] = by_name.get(name, 0) + count
        # Both gradients of a convolution take two forward passes at most; PyTorch counts those of
        # grouped convolutions as if they were not.
        forward, backward = by_name.get("convolution", 0), by_name.get("convolution_backward", 0)
        return int(counter.get_total_flops() - max(0, backward - 2 * forward))
    except Exception as error:
        _say("note", f"operations were not counted: {error!r}")
        return None


def _product_rate():
    """Returns the operations per second of a product of two f32 matrices, on one thread; none where
    that cannot be had."""
    torch = sys.modules["torch"]
    if not all(hasattr(torch, name) for name in ("mm", "ones", "set_num_threads", "no_grad")):
        return None
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.no_grad():
            a = torch.ones(_SIDE, _SIDE, dtype=torch.float32, device="cpu")
            best = None
            for _ in range(_PRODUCTS):
                began, queued = time.perf_counter(), _queued()
                torch.mm(a, a)
                seconds = time.perf_counter() - began - (_queued() - queued)
                best = seconds if best is None else min(best, seconds)
    finally:
        torch.set_num_threads(threads)
    return 2 * _SIDE**3 / best


_steps = _Steps()


def _on_optimizers(module):
    before = getattr(module, "register_optimizer_step_pre_hook", None)
    after = getattr(module, "register_optimizer_step_post_hook", None)
    if not before or not after:
        _say("problem", "this version of torch has no hooks of all optimizers: 2.0 or newer has")
        return
    before(_steps.before)
    after(_steps.after)


def _on_loaders(module):
    """Times the waits for batches of data loaders."""
    iterator = getattr(module, "_BaseDataLoaderIter", None)
    original = getattr(iterator, "__next__", None)
    if original is None:
        return

    def timed(self):
        began, queued = time.perf_counter(), _queued()
        if _steps.count < 2:
            _steps.epoch_samples = _epoch_samples(self)
        try:
            return original(self)
        finally:
            _steps.loading(time.perf_counter() - began, _queued() - queued)

    iterator.__next__ = timed


_WATCHED = {
    "torch.optim.optimizer": _on_optimizers,
    "torch.utils.data.dataloader": _on_loaders,
}


class _Finder:
    """Finds no module by itself: it has something done once a watched one is loaded."""

    def find_spec(self, name, path=None, target=None):
        react = _WATCHED.pop(name, None)
        if react is None:
            return None
        # Popped: whoever finds it now is not asked again by this finder.
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module):
            execute(module)
            try:
                react(module)
            except Exception as error:
                _say("problem", f"{name}: {error!r}")

        spec.loader.exec_module = executed
        return spec


def install():
    """Has PyTorch's steps reported, once the program imports it."""
    if os.environ.get(PIPE) and not any(isinstance(known, _Finder) for known in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
