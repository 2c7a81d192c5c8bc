"""The checks of one operator with one dtype. Each check is a generator of sentences, one per difference from the CPU.

Every call is made on copies of a sample, with the same seed on both devices. If the CPU refuses a call, npu must refuse it in the
call itself, with the same type of exception. Only wrong values in a tensor, such as indices, may be refused by a later wait.

Values that the CPU draws at random or does not write are not compared. No list names such results: if values differ, the CPU runs
again with other seeds and with filled fresh memory, and values that change then are ignored.
"""

import contextlib
import ctypes
import dataclasses
import re
import warnings

import torch
from torch.utils import _pytree

from . import layouts
from .compare import Tolerance, difference
from .layouts import Relaid, spread
from .placement import Placement

SEED = 20

# Messages of the CPU about a wrong value in a tensor, not a shape or dtype. The device finds it when the operator runs.
VALUE_ERROR = re.compile(
    r"\b(index|Target) -?\d+|index out of (range|bounds)|class values|probabilit|target\W+(is )?out of range"
)


# The CPU does not always check that a written tensor overlaps itself.
OVERLAP = "npu refuses: RuntimeError: unsupported operation: more than one element of the written-to tensor"


@dataclasses.dataclass
class Outcome:
    """The result or the exception of a call; `late`: the exception came from the wait for the device."""

    result: object = None
    error: Exception | None = None
    late: bool = False

    def text(self):
        first = str(self.error).strip().split("\n")[0] if self.error else ""
        return f"{type(self.error).__name__}{' at the wait' if self.late else ''}: {first[:300]}"


def attempt(device, function, seed=SEED):
    """Makes the call and, on npu, waits. No device error is pending afterwards."""
    torch.manual_seed(seed)
    error, late, result = None, False, None
    try:
        result = function()
    except Exception as caught:
        error = caught
    if device != "cpu":
        try:
            torch.npu.synchronize()
        except RuntimeError as caught:
            error, late = error or caught, error is None
    return Outcome(result, error, late)


@contextlib.contextmanager
def filled_memory():
    """Fills fresh CPU memory with NaN, or the largest integer."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def soiled_memory():
    """Fills fresh CPU memory with bytes that are neither zero nor NaN nor the largest integer."""
    perturb = -6  # M_PERTURB of glibc
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(perturb, 0x3C)
    try:
        yield
    finally:
        mallopt(perturb, 0)


def as_bytes(nest):
    """The byte of a Boolean that was never written."""
    return _pytree.tree_map_only(torch.Tensor, lambda t: t.view(torch.uint8) if t.dtype == torch.bool else t, nest)


def values_are_free(sample, run):
    """Whether the CPU gives other values with another seed or with other contents of fresh memory."""
    with soiled_memory():
        first = attempt("cpu", lambda: run(Placement(sample, "cpu")))
    for seed in range(SEED + 1, SEED + 9):
        with filled_memory():
            other = attempt("cpu", lambda: run(Placement(sample, "cpu")), seed)
        if first.error or other.error:
            return False
        if difference(as_bytes(other.result), as_bytes(first.result), Tolerance(), device="cpu"):
            return True
    return False


HALVES = (torch.float16, torch.bfloat16)


def is_half(value):
    return isinstance(value, torch.Tensor) and value.dtype in HALVES


def in_float32(leaf):
    return leaf.detach().float().requires_grad_(leaf.requires_grad) if is_half(leaf) else leaf


def expected_half(npu, cpu, exact):
    """What npu's tensor of half precision has to be: the rounded result of float32; or as it is, if its largest error is at most
    twice that of the CPU in half precision."""
    rounded = exact.detach().to(npu.dtype)
    if not isinstance(cpu, torch.Tensor) or not npu.shape == cpu.shape == exact.shape or exact.layout != torch.strided:
        return rounded
    found = npu.detach().to("cpu")
    error, limit = ((one.detach().float() - exact.detach()).abs() for one in (found, cpu))
    return found if exact.numel() and (error <= 2 * limit.max()).all() else rounded


def is_that_of_float32(sample, run, npu, cpu, tolerance):
    """Whether npu's values in half precision are as exact as expected_half says: some kernels of the CPU for half precision round
    between their steps, npu rounds once. `npu`, `cpu`: the result, and the memory of the arguments."""
    if not hasattr(sample, "transform"):
        return False
    placement = Placement(sample.transform(in_float32), "cpu")
    exact = attempt("cpu", lambda: run(placement))
    wanted, tree = _pytree.tree_flatten([exact.result, placement.memory()])
    found, halves = _pytree.tree_leaves(npu), _pytree.tree_leaves(cpu)
    if exact.error or not len(wanted) == len(found) == len(halves):
        return False
    triples = zip(found, halves, wanted, strict=True)
    expected = [expected_half(one, two, three) if is_half(one) else three for one, two, three in triples]
    result, memory = _pytree.tree_unflatten(expected, tree)
    return difference(npu[0], result, tolerance) is None and difference(npu[1], memory, tolerance, device="cpu") is None


def refusal(npu, cpu, same_type=True, same_text=False):
    """The difference between two outcomes' exceptions; "" if both failed alike, None if neither failed."""
    if cpu.error is None:
        return None if npu.error is None else f"npu refuses: {npu.text()}"
    if npu.error is None:
        return f"npu accepts what the CPU refuses: {cpu.text()}"
    if npu.late:
        return "" if is_value_error(npu.error, cpu.error) else f"npu refuses late: {npu.text()} instead of {cpu.text()}"
    if same_type and type(npu.error) is not type(cpu.error):
        return f"npu raises {npu.text()} instead of {cpu.text()}"
    if same_text and neutral(npu.error) != neutral(cpu.error) and not is_value_error(npu.error, cpu.error):
        return f"npu says '{neutral(npu.error)}' instead of '{neutral(cpu.error)}'"
    return ""


def is_value_error(npu, cpu):
    """Whether the CPU refuses a value, and npu's message names the operator and the same index."""
    found = VALUE_ERROR.search(str(cpu))
    return bool(found) and "task '" in str(npu) and all(number in str(npu) for number in re.findall(r"\d+", found[0]))


def neutral(error):
    """A message without device names and without the C++ stack."""
    first = str(error).strip().split("\nException raised from")[0]
    return re.sub(r"\b(cpu|npu|privateuseone)(:\d+)?\b", "device", first, flags=re.IGNORECASE)


def version_difference(npu, cpu, where, resizes=False, new=False):
    """Compares version counters. `resizes`: on devices other than the CPU, ATen resizes by resize_, which raises the counter.
    `new`: the call makes the tensors, so that the counter may be 0 even if the CPU changes its result before it returns it."""
    npu, cpu = ([leaf._version for leaf in _pytree.tree_leaves(nest) if isinstance(leaf, torch.Tensor)] for nest in (npu, cpu))
    pairs = zip(npu, cpu, strict=True)
    same = all(one == other or (resizes and one == other + 1) or (new and one == 0) for one, other in pairs)
    return None if same else f"version counters of {where}: {npu} instead of {cpu}"


def compare_call(sample, run, tolerance, same_type=True):
    """The difference between run(placement) on npu and on the CPU: result, and the arguments' memory and version counters
    afterwards."""
    here, there = Placement(sample, "cpu"), Placement(sample, "npu")
    cpu = attempt("cpu", lambda: run(here))
    npu = attempt("npu", lambda: run(there))
    found = refusal(npu, cpu, same_type)
    if found is not None:
        return found
    found = difference(npu.result, cpu.result, tolerance) or difference(
        there.memory(), here.memory(), tolerance, "memory of the arguments", device="cpu"
    )
    if not found:
        found = version_difference(there.tensors(), here.tensors(), "the arguments")
        if not found and tolerance.versions:
            found = version_difference(npu.result, cpu.result, "the results", tolerance.resizes, tolerance.new)
        return found
    if not tolerance.values:
        return found
    if is_that_of_float32(sample, run, [npu.result, there.memory()], [cpu.result, here.memory()], tolerance):
        return None
    free = dataclasses.replace(tolerance, values=False)
    if difference(npu.result, cpu.result, free) is None and values_are_free(sample, lambda p: [run(p), p.memory()]):
        return None
    return found


def samples_of(info, dtype, count, requires_grad=False):
    return spread(info.sample_inputs("cpu", dtype, requires_grad=requires_grad), count)


def forward(info, dtype, count):
    """Compares values, dtype, shape and device of the results, and the memory of the arguments."""
    tolerance = dataclasses.replace(Tolerance.of(info), versions=True, new=True)
    for sample in samples_of(info, dtype, count):
        yield sample, compare_call(sample, lambda p: p.call(info.op), tolerance)


def refusals(info, dtype, count):
    """For a dtype that the entry lacks: npu refuses what the CPU refuses, and accepts all samples if the CPU does.

    Samples without elements do not count: which dtypes the CPU accepts for them is accidental.
    """
    try:
        samples = samples_of(info, dtype, count)
    except Exception:
        return
    samples = [sample for sample in samples if not Placement(sample, "cpu").has_empty()]
    refused = [sample for sample in samples if attempt("cpu", Placement(sample, "cpu").call_of(info.op)).error]
    for sample in refused or samples:
        yield sample, compare_call(sample, lambda p: p.call(info.op), Tolerance.of(info))


def strides(info, dtype, count):
    """Compares strides of results, for arguments in the usual and in the reversed order of dimensions."""
    tolerance = dataclasses.replace(Tolerance.of(info), values=False, strides=True)
    for sample in samples_of(info, dtype, count):
        for one in (sample, Relaid(sample, layouts.transposed)):
            yield one, compare_call(one, lambda p: p.call(info.op), tolerance)


def cpu_depends_on_layout(relaid, op, tolerance):
    """Whether the CPU gives other values for the same dense arguments: then it reads outside of them."""
    here, dense = (attempt("cpu", Placement(one, "cpu").call_of(op)) for one in (relaid, Relaid(relaid, layouts.dense)))
    return not here.error and not dense.error and difference(here.result, dense.result, tolerance, device="cpu") is not None


def compare_views(sample, run, view, tolerance):
    """As compare_call, for run(placement, view), which passes view(tensor) for each tensor. If the CPU computes something else
    for views than for tensors with the same values, the latter count."""
    found = compare_call(sample, lambda p: run(p, view), tolerance)
    if not found:
        return found

    def values(tensor):
        return view(tensor).resolve_conj().resolve_neg()

    views, plain = (attempt("cpu", lambda f=function: run(Placement(sample, "cpu"), f)) for function in (view, values))
    if views.error or plain.error or difference(views.result, plain.result, tolerance, device="cpu") is None:
        return found
    npu = attempt("npu", lambda: run(Placement(sample, "npu"), view))
    return refusal(npu, plain) or difference(npu.result, plain.result, tolerance)


def compare_values(npu_sample, cpu_sample, op, tolerance):
    npu = attempt("npu", Placement(npu_sample, "npu").call_of(op))
    cpu = attempt("cpu", Placement(cpu_sample, "cpu").call_of(op))
    return refusal(npu, cpu) or difference(npu.result, cpu.result, tolerance)


def layout(info, dtype, count):
    """Arguments in every layout, zero-dimensional and empty."""
    tolerance = Tolerance.of(info)
    for sample in samples_of(info, dtype, count):
        for name, function in layouts.LAYOUTS.items():
            relaid = Relaid(sample, function)
            if not relaid.changed:
                continue
            # For zero-dimensional and empty arguments the CPU may fail with any error.
            same_type = function not in (layouts.zero_dim, layouts.empty)
            found = compare_call(relaid, lambda p: p.call(info.op), tolerance, same_type)
            if found and found.startswith(OVERLAP):
                continue
            if found and cpu_depends_on_layout(relaid, info.op, tolerance):
                found = compare_values(relaid, Relaid(relaid, layouts.dense), info.op, tolerance)
            yield relaid, f"{name}: {found}" if found else found


def upstream_gradients(outputs):
    """Fixed gradients of results: the same numbers in all floating dtypes."""
    generator = torch.Generator().manual_seed(SEED)
    return [torch.randn(t.shape, generator=generator).bfloat16().to(t.dtype).to(t.device) for t in outputs]


def gradients(placement, function, process=lambda result: result, parameters=()):
    """Results of a call, and gradients of its arguments and parameters, for fixed gradients of the results."""
    result = process(placement.call(function))
    outputs = [t for t in _pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    inputs = [*placement.differentiable(), *parameters]
    if not outputs or not inputs:
        return [result, len(outputs)]
    return [result, *torch.autograd.grad(outputs, inputs, upstream_gradients(outputs), allow_unused=True)]


def backward(info, dtype, count):
    """The gradients of the arguments."""
    tolerance = Tolerance.of(info)
    for sample in samples_of(info, dtype, count, requires_grad=True):
        yield sample, compare_call(sample, lambda p, s=sample: gradients(p, info.op, s.output_process_fn_grad), tolerance)


def inplace(info, dtype, count):
    """The in-place variant, also on tensors that are not dense, and its refusal of tensors that overlap themselves."""
    function, tolerance = info.get_inplace(), dataclasses.replace(Tolerance.of(info), versions=True)

    def run(placement):
        result = placement.call(function)
        return [result, result is placement.input]

    for sample in samples_of(info, dtype, count):
        for one in (sample, Relaid(sample, layouts.sliced)):
            yield one, compare_call(one, run, tolerance)
        overlapping = Relaid(sample, layouts.expanded)
        # If the CPU does not refuse, the values depend on the order of writes.
        if attempt("cpu", Placement(overlapping, "cpu").call_of(function)).error:
            yield overlapping, compare_call(overlapping, run, tolerance)


def _dense(like):
    return torch.empty_like(like, memory_format=torch.contiguous_format)


def _new(like, shape):
    return torch.empty(shape, dtype=like.dtype, device=like.device)


# Tensors for out=, made from the results of the CPU: of the same shape, whose strides must stay, and of another shape.
OUTS = {
    "dense": _dense,
    "column-major": lambda like: _new(like, (*like.shape[:-2], *like.shape[:-3:-1])).mT if like.dim() > 1 else _dense(like),
    "sliced": lambda like: _new(like, (*like.shape, 2))[..., 1],
    "double": lambda like: _dense(like).double(),
    "int64": lambda like: _dense(like).long(),
}
OUTS_TO_RESIZE = {
    "to resize": lambda like: _new(like, 0),
    "of a wrong shape": lambda like: _new(like, (*like.shape, 3)),
}


@contextlib.contextmanager
def resize_warnings():
    """Yields a function that returns the warnings about a resized out=."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: [one for one in caught if "An output with one or more elements was resized" in str(one.message)]


def out(info, dtype, count):
    """Results in out= of any layout, of a wrong size and of another dtype; another device is refused."""
    tolerance = dataclasses.replace(Tolerance.of(info), versions=True)
    tolerance.overrides[torch.float64] = tuple(tolerance.pair(dtype).values())  # computed with the arguments' precision
    for sample in samples_of(info, dtype, count):
        usual = attempt("cpu", lambda s=sample: Placement(s, "cpu").call(info.op))
        if usual.error or not all(isinstance(t, torch.Tensor) for t in _pytree.tree_leaves(usual.result)):
            continue
        for name, make in {**OUTS, **OUTS_TO_RESIZE}.items():

            def run(placement, usual=usual, make=make):
                given = _pytree.tree_map(lambda like: make(like.to(placement.device)).fill_(1), usual.result)
                given = tuple(given) if isinstance(given, tuple) else given
                with resize_warnings() as resized:
                    returned = _pytree.tree_leaves(placement.call(info.op, out=given))
                same = [one is other for one, other in zip(returned, _pytree.tree_leaves(given), strict=True)]
                return [given, same, bool(resized())]

            found = compare_call(
                sample, run, dataclasses.replace(tolerance, strides=name in OUTS, resizes=name in OUTS_TO_RESIZE)
            )
            yield sample, f"out={name}: {found}" if found else found
        elsewhere = _pytree.tree_map(_dense, usual.result)
        elsewhere = tuple(elsewhere) if isinstance(elsewhere, tuple) else elsewhere
        npu = attempt("npu", lambda s=sample, out=elsewhere: Placement(s, "npu").call(info.op, out=out))
        yield sample, None if npu.error else "out= on the CPU is accepted"


def errors(info, dtype, count):
    """The database's wrong calls raise the same type of exception with the same text."""
    for wrong in spread(info.error_inputs("cpu"), count):
        sample = wrong.sample_input
        here, there = Placement(sample, "cpu"), Placement(sample, "npu")
        cpu = attempt("cpu", lambda p=here: p.call(info.op))
        npu = attempt("npu", lambda p=there: p.call(info.op))
        yield sample, refusal(npu, cpu, same_text=True) if cpu.error else None


def bits(value):
    """The tensors of a nest of results as bytes."""
    leaves = [leaf.detach() for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor) and not leaf.is_nested]
    dense = [leaf.to_dense() if leaf.layout != torch.strided else leaf for leaf in leaves]
    flat = [leaf.cpu().clone(memory_format=torch.contiguous_format).flatten() for leaf in dense]
    return [leaf.view(torch.uint8).numpy().tobytes() if leaf.numel() else b"" for leaf in flat]


def seed(info, dtype, count):
    """The same seed gives the same bits with any number of threads; another seed gives other bits if it does on the CPU.

    Results that are not random may differ between thread counts on the CPU too.
    """

    def run(sample, device, seed=SEED, threads=1):
        torch.set_num_threads(threads)
        try:
            placement = Placement(sample, device)
            outcome = attempt(device, placement.call_of(info.op), seed)
            return None if outcome.error else bits(outcome.result) + bits(placement.memory())
        finally:
            torch.set_num_threads(1)

    for sample in samples_of(info, dtype, count):
        first = run(sample, "npu")
        if first is None:
            continue
        with filled_memory():
            cpu = run(sample, "cpu")
            is_random = cpu != run(sample, "cpu", SEED + 1)
        found = None
        if first != run(sample, "npu"):
            found = "the same seed gives other bits"
        elif first != run(sample, "npu", threads=2) and (is_random or cpu == run(sample, "cpu", threads=2)):
            found = "another number of threads gives other bits"
        elif is_random and first == run(sample, "npu", SEED + 1):
            found = "another seed gives the same bits"
        yield sample, found
