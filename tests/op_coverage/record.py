"""Records each operator that reaches the device: its device calls, its results, and whether they equal those of the CPU.

    recorder = Recorder()
    with recorder:
        torch.ones(2, device="npu").exp()
    recorder.records["aten::exp"].functions      # {"aclnnExp"}

Needs ASCEND_LAUNCH_BLOCKING=1: launches are recorded then, and an operator that fails on the device fails in its own call.
"""

import collections
import dataclasses

import torch
from torch.utils import _pytree
from torch_npu import _C
from torch_npu.npu import _compare, _equivalents, _watch

# (rtol, atol): those of assert_close, wider for the halves, whose kernels may round between their steps.
TOLERANCES = {torch.float16: (2e-3, 1e-4), torch.bfloat16: (2e-2, 1e-4)}


@dataclasses.dataclass
class Record:
    """All calls of one overload."""

    calls: int = 0
    launches: collections.Counter = dataclasses.field(
        default_factory=collections.Counter
    )  # device calls in one call -> how often
    functions: set = dataclasses.field(default_factory=set)
    dtypes: set = dataclasses.field(default_factory=set)
    differs: set = dataclasses.field(default_factory=set)  # dtypes whose values, shapes or sharing of memory are not the CPU's
    fails: set = dataclasses.field(default_factory=set)  # dtypes that the CPU takes and npu does not
    fallbacks: set = dataclasses.field(default_factory=set)  # overloads inside that ran on the CPU
    compared: bool = False
    details: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class _Open:
    """A call that has begun."""

    op: object
    args: tuple
    kwargs: dict
    twin: object
    first_launch: int


def registration(name):
    """How an overload reaches the device: own (a kernel of the plugin), composite or fallback."""
    if _watch._has_kernel(name, "PrivateUse1"):
        return "own"
    composite = _watch._has_kernel(name, "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return "composite" if composite else "fallback"


def dtype_of(args, kwargs, result):
    """The dtype of the first tensor argument, else of the first result."""
    for leaf in _pytree.tree_leaves((args, kwargs, result)):
        if isinstance(leaf, torch.Tensor):
            return leaf.dtype
    return None


def shared(results, inputs):
    """Pairs of results and arguments that share memory."""
    places = [tensor.untyped_storage().data_ptr() for tensor in inputs]
    found = []
    for tensor in tensors_of(results):
        place = tensor.untyped_storage().data_ptr()
        found.append(places.index(place) if place in places else None)
    return found


def tensors_of(*values):
    """Tensors with a storage."""
    leaves = [leaf for leaf in _pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    return [leaf for leaf in leaves if leaf.numel() > 0 and not leaf._is_zerotensor()]


class Recorder:
    """Watches all operators inside a `with` block. `on_call(op, dtype, twin)` is called after each outermost call."""

    def __init__(self, compares=True, on_call=None):
        self.registrations = {name: registration(name) for name in _watch.matching(".*")}
        self.records = collections.defaultdict(Record)
        self.ended = {}  # title of a sample -> the exception that ended it
        self._compares = compares
        self._on_call = on_call
        self._launches = []
        self._open = []

    def __enter__(self):
        _watch.watch(list(self.registrations), self._begin)
        _C._take_recorded_launches()
        return self

    def __exit__(self, *_):
        _C._record_launches(False)
        _watch.unwatch(list(self.registrations), self._begin)

    def _begin(self, op, args, kwargs):
        self._pause()
        is_random = torch.Tag.nondeterministic_seeded in op.tags
        compares = self._compares and not is_random and not _equivalents.has_one(op) and _compare.why_not(op) is None
        twin = _compare._Call(op, args, kwargs) if compares else None
        call = _Open(op, args, kwargs, twin, len(self._launches))
        self._open.append(call)
        _C._record_launches(True)
        return lambda result: self._end(call, result)

    def _pause(self):
        _C._record_launches(False)
        self._launches += _C._take_recorded_launches()

    def _end(self, call, result):
        self._pause()
        launched = self._launches[call.first_launch :]
        while self._open.pop() is not call:  # later calls were left by an exception that was caught
            pass
        if not self._open:
            self._launches.clear()
        record, dtype = self.records[call.op._name], dtype_of(call.args, call.kwargs, result)
        record.calls += 1
        record.launches[len(launched)] += 1
        record.functions |= set(launched)
        if self.registrations[call.op._name] == "fallback":
            for outer in self._open:
                self.records[outer.op._name].fallbacks.add(call.op._name)
        if call.twin is not None:
            self._compare(record, call, result, dtype)
        if dtype is not None:
            record.dtypes.add(dtype)
        if self._on_call is not None and not self._open:
            self._on_call(call.op, dtype, call.twin)
        if self._open:
            _C._record_launches(True)

    def _compare(self, record, call, result, dtype):
        try:
            expected, written = call.twin.expected()
        except (RuntimeError, TypeError, ValueError, IndexError):
            return
        record.compared = True
        on_npu = shared(result, tensors_of(call.args, call.kwargs))
        on_cpu = shared(expected, tensors_of(call.twin.args, call.twin.kwargs))
        rtol, atol = TOLERANCES.get(dtype, (None, None))
        try:
            torch.testing.assert_close(
                call.twin.actual(result), (expected, written), rtol=rtol, atol=atol, equal_nan=True, check_device=False
            )
            if on_npu != on_cpu:
                raise AssertionError(f"memory is shared otherwise: {on_npu} instead of {on_cpu}")
        except AssertionError as error:
            record.differs.add(dtype)
            record.details.append(f"{call.op._name} {dtype}: {call.twin.described}: {' '.join(str(error).split())}")
        except RuntimeError as error:  # the device reports the operator's failure when its results are read
            self._note_failure(record, call, dtype, error)
            raise

    def failed(self, error):
        """Notes an exception that ended a sample. It belongs to the innermost unfinished call."""
        self._pause()
        if not self._open:
            return
        call = self._open[-1]
        self._open.clear()
        self._launches.clear()
        if call.twin is None:
            return
        try:
            call.twin.expected()
        except (RuntimeError, TypeError, ValueError, IndexError):
            return
        dtype = dtype_of(call.args, call.kwargs, None)
        self._note_failure(self.records[call.op._name], call, dtype, error)

    @staticmethod
    def _note_failure(record, call, dtype, error):
        record.fails.add(dtype)
        record.details.append(f"{call.op._name} {dtype} fails: {call.twin.described}: {error}".splitlines()[0])
