"""Reports the training steps of a program to `epochcost profile` (docs/profiling.md).

PyTorch's steps are reported without a changed line: hooks of all optimizers are registered when the
program imports torch, which is never imported here. Any other framework calls `step()` after each step:

    import epochcost_profile
    epochcost_profile.step(samples=32)

Nothing in here fails the program: a mistake becomes a line `problem`.
"""

import contextlib
import functools
import importlib.util
import os
import random
import re
import sys
import time
import weakref
from collections.abc import Mapping

# A program may replace what `time` holds.
from time import perf_counter, thread_time

PIPE = "EPOCHCOST_PROFILE_PIPE"

# Steps that are not timed: the first one, and two with their operations counted.
_WARM_UP = 3
# Steps at most whose operations are counted, where steps differ.
_COUNTED = 14
# Backward passes without an optimizer after which the program is told that its steps are not seen.
_UNSEEN = 50
# Side of the matrices whose product measures the machine.
_SIDE = 1024
_PRODUCTS = 6

# The pipe's name as this program got it, its descriptor, and which file that is.
_path = os.environ.get(PIPE)
_pipe = None
_file = None
_last = None
# Descriptors that no program counts on; those below are closed and reused by some.
_HIGH = 200


def _report(word, **fields):
    """Writes one line; does nothing without a pipe."""
    path = _path or os.environ.get(PIPE)
    if not path:
        return
    known = [f"{name}={value}" for name, value in fields.items() if value is not None]
    line = " ".join([word, f"process={os.getpid()}", *known]) + "\n"
    _write(path, line)


def _say(word, text):
    path = _path or os.environ.get(PIPE)
    if path:
        _write(path, f"{word} {' '.join(str(text).split())[:1000]}\n")


def _write(path, line):
    try:
        if _pipe is None or _identity(_pipe) != _file:
            _open(path)
        os.write(_pipe, line.encode())
    except OSError:
        # The reader has ended.
        pass


def _identity(descriptor):
    """Returns which file a descriptor is of: the program may have closed it, and opened one of its own."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open(path):
    global _pipe, _file
    low = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        import fcntl

        _pipe = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        os.close(low)
    except (ImportError, OSError, ValueError):
        _pipe = low
    _file = _identity(_pipe)


def step(samples=None):
    """Marks the end of a training step of `samples` samples."""
    global _last
    now = perf_counter()
    if _last is None:
        _report("begin", samples=samples)
    else:
        _report("step", seconds=now - _last, samples=samples, peak_mb=_peak_mb())
    _last = perf_counter()


def _peak_mb():
    """Returns the most memory that was resident, MB of 2**20 bytes."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _resident_mb():
    """Returns the memory that is resident now, MB of 2**20 bytes; the most so far where only that is known."""
    try:
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, IndexError, ValueError):
        return _peak_mb()


def _queued():
    """Returns the seconds that this thread has waited for a core; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat") as statistics:
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
        # A weak reference: a program may make its optimizer anew.
        self.main = None
        self.optimizers = weakref.WeakSet()
        self.count = 0
        self.last = None
        self.began = None
        # Seconds since the last step: in the optimizer, waiting for data, and, since the step began and
        # before, not in training.
        self.optimizing = 0.0
        self.waiting = 0.0
        self.apart = 0.0
        self.before_it = 0.0
        # Waits for a core: at the end of the last step, and in the optimizer or for data since.
        self.last_queued = 0.0
        self.began_queued = 0.0
        self.elsewhere_queued = 0.0
        self.device = "cpu"
        self.operations = None
        # Numbers of the kinds of steps, and operations per sample of those that were counted.
        self.kinds = {}
        self.counted = {}
        self.left = _COUNTED
        # Own draws, which leave the program's as they are.
        self.draws = random.Random(1)
        # Seconds and samples of evaluations that were not reported yet.
        self.evaluation = [0.0, 0]
        self.before_mb = None
        # Whether a module holds parameters of an optimizer.
        self.trained = weakref.WeakKeyDictionary()
        self.roots = []
        self.inside = False
        # What nested calls are looked at for: the root's samples, and the batch's dimension.
        self.pending = False
        self.looking = False
        self.axis = 0
        # Type of the training loader's data set, the samples that an epoch draws, and those of the data set.
        self.dataset = None, None, None
        self.graph = False
        self.held = None
        self.full = False
        self.clear()

    def clear(self):
        """Forgets what was taken since the last step."""
        self.root = None
        self.calls = self.called = self.loaded = self.modules = 0
        # Distinct inputs of the step, kept alive so that no address is used twice.
        self.inputs = {}
        self.shape = None

    def now(self):
        """Returns the time after everything that a GPU still computes."""
        if self.device == "cuda":
            sys.modules["torch"].cuda.synchronize()
        return perf_counter()

    @_guarded
    def made(self, optimizer):
        self.optimizers.add(optimizer)
        self.trained.clear()

    @_guarded
    def before(self, optimizer, arguments, keywords):
        if self.main is None or self.main() is None:
            self.main = weakref.ref(optimizer)
        if optimizer not in self.optimizers:
            self.made(optimizer)
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
        if optimizer is not self.main():
            return
        self.count += 1
        samples, kind = self.loaded or self.called or None, self.kind()
        if self.evaluation[1]:
            _report("evaluation", seconds=self.evaluation[0], samples=self.evaluation[1])
            self.evaluation = [0.0, 0]
        if self.last is None:
            _report("begin")
        else:
            _report(
                "step",
                seconds=max(1e-9, now - self.last - self.apart),
                optimizer=self.optimizing,
                data=self.waiting,
                queue=max(0.0, queued - self.last_queued - self.elsewhere_queued),
                samples=samples,
                peak_mb=self.peak_mb(),
                warm=1 if self.count <= _WARM_UP or self.operations else None,
                kind=kind,
                apart=self.apart + self.before_it,
            )
        self.counted_step(samples, kind)
        # A product of matrices is no step's.
        if self.count <= _WARM_UP:
            self.warm_up()
        self.count_next()
        self.clear()
        self.restart()
        self.before_it = 0.0

    def restart(self):
        """Has the next step begin now."""
        self.optimizing = self.waiting = self.elsewhere_queued = self.apart = 0.0
        self.last, self.last_queued = self.now(), _queued()

    def kind(self):
        """Returns the number of the step's kind: of as many calls, on inputs that differ in the batch at most."""
        shapes = tuple(tuple(value.shape)[1:] for value in self.inputs.values())
        # Compiled modules call none of theirs, but where operations are counted.
        did = self.calls if _compiles() else self.modules, shapes
        return self.kinds.setdefault(did, len(self.kinds))

    def counted_step(self, samples, kind):
        """Reports the step's operations, if they were counted."""
        own = self.counted.setdefault(kind, []) if self.count > 1 else []
        if self.operations:
            flops = self.bounded(_counted(self.operations) or 0)
            self.operations = None
            own.append(flops / (samples or 1))
            if flops:
                _report("work", flops=flops, samples=samples, kind=kind)

    def count_next(self):
        """Has the operations of the second and third step counted, and those of others where steps differ."""
        differ = any(not own or max(own) > 1.01 * min(own) for own in self.counted.values())
        if self.count < _WARM_UP or differ and self.left > 0 and self.draws.random() < 0.5:
            self.operations = _operations()
            self.left = self.left - 1 if self.operations else 0

    def warm_up(self):
        """Does what the first steps are for."""
        if self.count > 1:
            same = self.held and self.called and not self.loaded and self.held.keys() == self.inputs.keys()
            # One may take the last step's batch once more, as a delayed update of an actor does.
            self.full = bool(same) and (self.full or self.count == 2)
        # Kept for one step more: an input at the same address is the same one.
        self.held = self.inputs if self.count < _WARM_UP else None
        if self.count == _WARM_UP:
            self.describe()
            if self.device == "cpu":
                rate = _product_rate()
                if rate:
                    _report("rate", flops_per_s=rate)

    def bounded(self, flops):
        """Returns the operations, or a lower bound where operators were not counted."""
        if not _uncounted:
            return flops
        rows = sum(value.numel() // (value.shape[-1] or 1) for value in self.inputs.values())
        if any(not value.is_floating_point() for value in self.inputs.values()):
            rows = sum(value.numel() for value in self.inputs.values())
        bound = 6 * rows * _weights(self.roots)
        if self.count == _WARM_UP:
            _say(
                "note",
                f"operators that were seen and not counted: {', '.join(sorted(_uncounted)[:6])}. Counted: "
                f"{flops:.3g} per step; 6 x weights x rows is {bound:.3g}; the larger one is taken, and both may "
                "be too low: predictions for GPUs are a lower bound",
            )
        return max(flops, bound)

    def describe(self):
        torch = sys.modules["torch"]
        trainable = _trainable(self.optimizers)
        scalars = sum(parameter.numel() for parameter in trainable)
        largest = max(trainable, key=lambda parameter: parameter.numel(), default=None)
        whole, statistics = _whole(self.roots, trainable)
        threads = getattr(torch, "get_num_threads", None)
        name = None
        if self.device == "cuda":
            name = torch.cuda.get_device_name().replace(" ", "_")
        trainable_bytes = sum(p.numel() * p.element_size() for p in trainable)
        optimizer_bytes = _state_bytes(self.optimizers)
        fixed = None
        if self.before_mb is not None:
            fixed = self.before_mb + (trainable_bytes + optimizer_bytes) / 2**20
        epochs, steps, who = _planned()
        _report(
            "model",
            framework=f"torch-{getattr(torch, '__version__', 'unknown')}",
            trainable=scalars,
            parameters=whole,
            statistics=statistics,
            epoch_samples=self.called if self.full else self.epoch_samples(epochs),
            dtype=str(largest.dtype).replace("torch.", "") if largest is not None else None,
            trainable_bytes=trainable_bytes,
            optimizer_bytes=optimizer_bytes,
            fixed_mb=fixed,
            ranks=_ranks(),
            full=(2 if self.graph else 1) if self.full else None,
            epochs=epochs,
            planned_steps=steps,
            planned_by=who,
            device=self.device,
            device_name=name,
            threads=threads() if threads else None,
        )
        self.explain()

    def epoch_samples(self, epochs):
        """Returns the samples of an epoch: of one of the program's, else each sample once."""
        _, drawn, stored = self.dataset
        if epochs is None and drawn and stored and drawn > stored:
            # Draws with replacement, as many as the loop never needs.
            _say("note", f"the loader draws {drawn} of {stored} samples; an epoch is taken as {stored}")
            return stored
        return drawn

    def explain(self):
        """Says where the samples of a step come from, and what speaks against them."""
        taken = f"{type(self.root).__name__} takes {self.called} (dimension {self.axis} of {self.shape}"
        taken += f", {self.calls} calls)" if self.calls > 1 else ")"
        if self.loaded and self.called in (0, self.loaded):
            _say("note", f"samples: {self.loaded} per step, of the DataLoader")
        elif self.loaded:
            _say(
                "note",
                f"samples: {self.loaded} per step, as the DataLoader hands out; {taken}: "
                "--samples-per-step says otherwise",
            )
        elif self.full:
            of = "nodes of one graph, which are no independent samples" if self.graph else "all the data"
            _say("note", f"samples: every step takes the same {self.called}: {of}. A step is an epoch")
        elif self.called:
            _say("note", f"samples: no DataLoader to compare with; {taken}: if that is no batch, give --samples-per-step")

    def peak_mb(self):
        if self.device == "cuda":
            return sys.modules["torch"].cuda.max_memory_allocated() / 2**20
        return _peak_mb()

    @_guarded
    def loading(self, iterator, batch, seconds, queued):
        self.waiting += seconds
        self.elsewhere_queued += queued
        if batch is None or not sys.modules["torch"].is_grad_enabled():
            return
        # Some programs make their data set anew for each epoch.
        dataset = type(getattr(iterator, "_dataset", None)), *_epoch_samples(iterator)
        if self.count == 0 and self.dataset != dataset:
            # The last one before the first step is the training's.
            self.dataset, self.loaded = dataset, 0
        if dataset == self.dataset:
            index = getattr(iterator, "_index_sampler", None)
            stated, value = getattr(index, "batch_size", None), _tensor(batch)
            if isinstance(stated, int):
                # The last batch of an epoch has what is left.
                yielded = getattr(iterator, "_num_yielded", 0)
                left = (_length(getattr(index, "sampler", None)) or 0) - stated * (yielded - 1)
                self.loaded += min(stated, left) if yielded and left > 0 else stated
            else:
                self.loaded += value.shape[0] if value is not None else 0

    def trains(self, module):
        """Returns whether a module holds parameters of an optimizer."""
        known = self.trained.get(module)
        if known is None:
            own = {id(parameter) for parameter in _parameters(self.optimizers)}
            known = self.trained[module] = any(id(parameter) in own for parameter in module.parameters())
        return known

    def call(self, original, module, inputs, keywords):
        """Calls an outermost module."""
        torch = sys.modules["torch"]
        # A trace would have the shapes that are read here.
        if not self.optimizers or self.failed or torch.jit.is_tracing() or not self.trains(module):
            return original(module, *inputs, **keywords)
        is_training = torch.is_grad_enabled()
        self.modules += 1
        if not is_training and getattr(module, "training", True):
            return original(module, *inputs, **keywords)
        before = _snapshot(self.operations), self.modules - 1
        began = self.now()
        if is_training:
            self.takes(module, inputs, keywords)
        self.inside = True
        try:
            return original(module, *inputs, **keywords)
        finally:
            self.inside = self.pending = self.looking = False
            if not is_training:
                self.evaluated(inputs, keywords, self.now() - began, before)

    @_guarded
    def takes(self, module, inputs, keywords):
        """Notes a call with gradients."""
        if self.before_mb is None:
            torch = sys.modules["torch"]
            on_gpu = _device(self.optimizers) == "cuda"
            self.before_mb = torch.cuda.memory_allocated() / 2**20 if on_gpu else _resident_mb()
        self.calls += 1
        if self.root is None:
            self.root = module
        if not any(known is module for known in self.roots):
            self.roots.append(module)
        if module is self.root:
            self.looking = self.count < _WARM_UP
            self.pending = not self.samples((inputs, keywords))
            self.graph = self.graph or _has_edges(inputs)

    def samples(self, values):
        """Adds the first tensor's samples; returns whether there is one."""
        value = _tensor(values)
        if value is None:
            return False
        try:
            key = (value.data_ptr(), tuple(value.shape))
        except Exception:
            key = id(value)
        if key not in self.inputs:
            self.inputs[key] = value
            self.shape = tuple(value.shape)
            self.called += self.shape[min(self.axis, len(self.shape) - 1)]
        return True

    @_guarded
    def nested(self, module, inputs, keywords):
        if self.pending:
            self.pending = not self.samples((inputs, keywords))
        if not self.looking:
            return
        # A layer that takes (sequence, batch, features) says which dimension is the batch.
        value = _tensor((inputs, keywords)) if getattr(module, "batch_first", None) is False else None
        if value is not None and len(value.shape) == 3 and self.shape:
            self.looking, batch = False, value.shape[1]
            if batch != self.shape[self.axis] and self.shape[:2] == tuple(value.shape[:2]):
                self.called += batch - self.shape[self.axis]
                self.axis = 1
        self.graph = self.graph or _has_edges(inputs)

    @_guarded
    def evaluated(self, inputs, keywords, seconds, before):
        """Takes a call in evaluation mode without gradients out of the step."""
        value = _tensor((inputs, keywords))
        if value is not None and len(value.shape) > self.axis:
            self.evaluation[0] += seconds
            self.evaluation[1] += value.shape[self.axis]
        counts, self.modules = before
        _restore(self.operations, counts)
        self.set_apart(seconds)

    @_guarded
    def set_apart(self, seconds):
        """Takes time out of a step; what is before a step's first pass is before the step."""
        if self.last is None:
            return
        if self.calls:
            self.apart += seconds
        else:
            self.loaded = 0
            self.before_it += self.now() - self.last
            self.restart()


def _has_edges(inputs):
    """Returns whether the second tensor has the shape of a graph's edges, (2, edges)."""
    shapes = [tuple(getattr(value, "shape", ())) for value in inputs[:2]]
    return len(shapes) == 2 and len(shapes[1]) == 2 and shapes[1][0] == 2 and shapes[0][:1] != (2,)


def _tensor(values, depth=4):
    """Returns the first tensor with a dimension in arguments."""
    if getattr(values, "shape", None) and hasattr(values, "dtype"):
        return values
    if depth and isinstance(values, (tuple, list, Mapping)):
        for value in values.values() if isinstance(values, Mapping) else values:
            found = _tensor(value, depth - 1)
            if found is not None:
                return found
    return None


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
    """Returns the samples that an epoch of a data loader's iterator draws, and those of its dataset; none
    where they are not known."""
    sampler = getattr(getattr(loader, "_index_sampler", None), "sampler", None)
    stored = _length(getattr(loader, "_dataset", None))
    # A distributed sampler draws those of one rank.
    drawn = None if getattr(sampler, "num_replicas", 1) > 1 else _length(sampler)
    return stored if drawn is None else drawn, stored


def _length(values):
    try:
        return len(values)
    except (TypeError, NotImplementedError, AttributeError):
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


# Operators with products of matrices that no counter knew.
_uncounted = set()
_LIGHT = "aten", "prim", "prims", "c10d", "_c10d_functional", "profiler", "higher_order", "torchvision"
_HEAVY = re.compile("rnn|lstm|gru|conv|sparse.*mm|fft|ctc_loss")


def _recurrent(passes, inputs, *arguments, **_):
    """Returns the operations of a layer of an LSTM or GRU, by the shapes of its arguments."""
    weights = arguments[0] if isinstance(arguments[0][0], (list, tuple)) else arguments[:2]
    scalars = sum(shape[0] * shape[1] for shape in weights if len(shape) == 2)
    return passes * 2 * scalars * inputs[0] * inputs[1]


def _operations():
    """Returns a counter of operations that is already counting; none if there is none."""
    try:
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        class Counter(FlopCounterMode):
            stance = None

            def _count_flops(self, packet, out, arguments, keywords):
                name = str(packet)
                if packet not in self.flop_registry:
                    space = name.split(".", 1)[0]
                    own = space not in _LIGHT
                    if own or (_HEAVY.search(name) and "thnn" not in name):
                        _uncounted.add(name)
                return super()._count_flops(packet, out, arguments, keywords)

        known = {}
        for name, passes in (("mkldnn_rnn_layer", 1), ("_cudnn_rnn", 1)):
            for operator, factor in ((name, passes), (f"{name}_backward", 2)):
                if hasattr(torch.ops.aten, operator):
                    known[getattr(torch.ops.aten, operator)] = functools.partial(_recurrent, factor)
        counter = Counter(display=False, custom_mapping=known)
        # Totals only: PyTorch's tracker of modules fails programs that call `autograd.grad`. Operators of
        # higher order are run even where they cannot be counted.
        counter.mod_tracker, counter.skip_unsupported = contextlib.nullcontext(), True
        counter.mod_tracker.parents = ("Global",)
        # Compiled graphs hide their operators.
        if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
            counter.stance = torch.compiler.set_stance("force_eager")
        counter.__enter__()
        return counter
    except Exception as error:
        _say("note", f"operations were not counted: {error!r}")
        return None


def _compiles():
    """Returns whether the program compiles anything."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(getattr(dynamo, "counters", {}).get("frames"))


def _snapshot(counter):
    return dict(counter.flop_counts["Global"]) if counter else None


def _restore(counter, counts):
    """Forgets what was counted since."""
    if counter and counts is not None:
        counter.flop_counts["Global"].clear()
        counter.flop_counts["Global"].update(counts)


def _counted(counter):
    if counter is None:
        return None
    try:
        counter.__exit__(None, None, None)
        if counter.stance is not None:
            counter.stance.__exit__(None, None, None)
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


def _weights(modules):
    """Returns the scalars of matrices that rows are multiplied by: all but those of embeddings."""
    found = {}
    for module in modules:
        for part in module.modules():
            if hasattr(part, "num_embeddings"):
                continue
            own = part.parameters(recurse=False)
            found.update((id(p), p.numel()) for p in own if len(p.shape) > 1)
    return sum(found.values())


def _ranks():
    """Returns the processes that train together; none of one alone."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_world_size() if distributed.get_world_size() > 1 else None


_EPOCHS = re.compile(r"((n|num|max|total)_?)?(train_)?epochs|niter")
_STEPS = re.compile(r"max_?(train_)?(steps|iters|iterations)|(num|total)_?train(ing)?_steps|train_(num_)?steps")
_HOLDERS = re.compile("self|args|opts?|options|flags|config|cfg|hparams|hps|params|trainer|training_args", re.I)


def _planned():
    """Returns the epochs or the steps that the program's loop was asked for, and the variable that says
    so: of the innermost function that has one."""
    frame = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and f"{os.sep}torch{os.sep}" not in file:
            for scope in (frame.f_locals, {} if "site-packages" in file else frame.f_globals):
                for pattern, is_steps in ((_STEPS, True), (_EPOCHS, False)):
                    found = _variable(scope, pattern)
                    if found:
                        who, value = found
                        who = "_".join(f"{who}_of_{os.path.basename(file)}".split())
                        return (None, value, who) if is_steps else (value, None, who)
        frame = frame.f_back
    return None, None, None


def _variable(scope, pattern):
    places = [("", scope)]
    for name, value in list(scope.items()):
        if _HOLDERS.fullmatch(name):
            inner = value if isinstance(value, dict) else getattr(value, "__dict__", {})
            places.append((f"{name}.", inner))
    for before, place in places:
        for name, value in list(place.items()):
            if isinstance(name, str) and pattern.fullmatch(name.lower().lstrip("_")):
                is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
                if is_number and 1 <= value < 1e9 and value == int(value):
                    return before + name, int(value)
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
                # Of this thread alone: waits for a core are in no product.
                began = thread_time()
                torch.mm(a, a)
                seconds = thread_time() - began
                best = seconds if best is None else min(best, seconds)
    finally:
        torch.set_num_threads(threads)
    return 2 * _SIDE**3 / best if best else None


_steps = _Steps()


def _on_optimizers(module):
    before = getattr(module, "register_optimizer_step_pre_hook", None)
    after = getattr(module, "register_optimizer_step_post_hook", None)
    if not before or not after:
        _say("problem", "this version of torch has no hooks of all optimizers: 2.0 or newer has")
        return
    before(_steps.before)
    after(_steps.after)
    original = module.Optimizer.__init__

    @functools.wraps(original)
    def made(self, *arguments, **keywords):
        original(self, *arguments, **keywords)
        _steps.made(self)

    module.Optimizer.__init__ = made


def _on_modules(module):
    """Has outermost calls of modules seen. Not by PyTorch's hooks: compilers trace these."""
    original = module.Module.__call__

    @functools.wraps(original)
    def called(self, *inputs, **keywords):
        if not _steps.inside:
            return _steps.call(original, self, inputs, keywords)
        _steps.modules += 1
        if _steps.pending or _steps.looking:
            _steps.nested(self, inputs, keywords)
        return original(self, *inputs, **keywords)

    module.Module.__call__ = called


def _on_backward(module):
    """Ends the run of a program that trains without an optimizer of torch.optim."""
    original, passes = module.backward, [0]

    @functools.wraps(original)
    def backward(*arguments, **keywords):
        passes[0] += 1
        if passes[0] == _UNSEEN and not _steps.optimizers:
            _say("problem", f"no optimizer of torch.optim was made before {_UNSEEN} backward passes")
        return original(*arguments, **keywords)

    module.backward = backward


_started = time.time()


def _on_saving(name, position):
    """Has a function that writes files keep those that were there before."""

    def react(module):
        original = getattr(module, name)

        @functools.wraps(original)
        def save(*arguments, **keywords):
            began = perf_counter()
            path = next(iter(arguments[position : position + 1]), keywords.get("f", keywords.get("filename")))
            try:
                _keep(path)
            except OSError as error:
                _say("note", f"{path} is overwritten: {error}")
            try:
                return original(*arguments, **keywords)
            finally:
                _steps.set_apart(perf_counter() - began)

        setattr(module, name, save)

    return react


def _keep(path):
    """Renames a file that was there before the program was started; the profiler puts it back."""
    if not os.environ.get(PIPE) or not isinstance(path, (str, os.PathLike)):
        return
    path = os.path.realpath(path)
    if os.path.isfile(path) and os.stat(path).st_mtime < _started:
        with open(os.path.join(os.path.dirname(os.environ[PIPE]), "kept"), "a") as kept:
            kept.write(f"{path}\n")
        os.rename(path, f"{path}.epochcost-kept")
        _say("note", f"the program writes over {path}: the file that was there is put back after the run")


def _on_loaders(module):
    """Times the waits for batches of data loaders."""
    iterator = getattr(module, "_BaseDataLoaderIter", None)
    original = getattr(iterator, "__next__", None)
    if original is None:
        return

    def timed(self):
        began, queued = perf_counter(), _queued()
        batch = None
        try:
            batch = original(self)
            return batch
        finally:
            _steps.loading(self, batch, perf_counter() - began, _queued() - queued)

    iterator.__next__ = timed


_WATCHED = {
    "torch.autograd": _on_backward,
    "torch.nn.modules.module": _on_modules,
    "torch.optim.optimizer": _on_optimizers,
    "torch.serialization": _on_saving("save", 1),
    "torch.utils.data.dataloader": _on_loaders,
    "safetensors.torch": _on_saving("save_file", 1),
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
