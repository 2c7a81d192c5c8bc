"""The sweep finds wrong operators, crashes, hangs, and gaps that no longer fail."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from . import environment, gaps, runner

ROOT = Path(__file__).resolve().parents[2]

# Planted fault -> (check that must find it, its message).
FAULTS = {
    "x + on_npu(x)": ("forward", "not close"),
    "x.double() if on_npu(x) else x + 0": ("forward", "dtype torch.float64 instead of torch.float32"),
    "x[:2] if on_npu(x) else x + 0": ("forward", "shape (2, 4) instead of (3, 4)"),
    "x.cpu()": ("forward", "device cpu instead of npu"),
    "x.add_(1).sub(1) if on_npu(x) else x.clone()": ("forward", "memory of the arguments"),
    "torch.rand(3).to(x.device) if on_npu(x) else torch.rand(3, 4)": ("forward", "dimensions 1 instead of 2"),
    "(x.detach() if on_npu(x) else x) * 2": ("backward", "instead of"),
    "x.as_strided((3, 4), (4, 1)) + 0 if on_npu(x) else x + 0": ("layout", "transposed"),
    "x.t().contiguous().t() if on_npu(x) else x.contiguous()": ("strides", "strides (1, 3) instead of (4, 1)"),
    "overflowing(x * 2)": ("forward", "red zone"),
    "x.view(5) if on_npu(x) else x[9]": ("errors", "npu raises RuntimeError"),
    "x + 0 if on_npu(x) else x.view(5, 5)": ("errors", "npu accepts what the CPU refuses"),
    "x.view(5) if on_npu(x) else x.view(6)": ("errors", "npu says"),
    "x + (torch.seed() % 1000 if on_npu(x) else 0)": ("seed", "the same seed gives other bits"),
    "torch.zeros_like(x) if on_npu(x) else torch.rand_like(x)": ("seed", "another seed gives the same bits"),
    "torch._neg_view(x) + 0 if on_npu(x) and x.is_neg() else x + 0": ("neg", "not close"),
    "x * 3 if on_npu(x) else stored(x) * 2": ("neg", "not close"),
    "x.mul_(1).clone() if on_npu(x) else x.clone()": ("cow", "result[1][0]"),
    "(x.detach() if on_npu(x) else x) * 3": ("jvp", "instead of a tensor"),
    "(x.detach() if on_npu(x) else x) * x * 2": ("gradgrad", "instead of"),
    "x * (5 if on_npu(x) else 4)": ("vmap", "not close"),
    "(torch.autograd.graph.increment_version(x) if on_npu(x) else None) or x * 2": ("forward", "version counters"),
    "(x * 2).add_(0) if on_npu(x) else x * 2": ("forward", "version counters"),
    "x.mul_(1) * 2 if on_npu(x) else x * 2": ("forward", "version counters"),
    "from_freed_memory(x)": ("freed", "not close"),
    "x * (1 + on_npu(x))": ("freed", "not close"),
}
RIGHT = ["x * 2", "torch.rand_like(x)", "torch.empty_like(x)"]
CHECKS = ("forward", "layout", "strides", "seed", "errors", "neg", "cow", "jvp", "gradgrad", "vmap", "freed")
PASSING = [(body, check) for body in RIGHT for check in CHECKS]
# What the CPU alone does wrong, or in more steps than npu.
PASSING += [
    ("x * 2 if on_npu(x) else stored(x) * 2", "neg"),
    ("x * 2 if on_npu(x) else (x * 2).add_(0)", "forward"),
    ("x * 2 if on_npu(x) or x.data_ptr() else None", "cow"),
]

PLANT = """
import ctypes
import json
import sys

sys.path.insert(0, sys.argv[1])
import torch
from torch.testing._internal.opinfo.core import ErrorInput, OpInfo, SampleInput

from tests.memory.memory_faults import write_beside
from tests.ops import checks, forms, lifetime
from tests.ops.cases import Case


def on_npu(x):
    return x.device.type == "npu"


def stored(x):
    # The values in memory, which those of a negated view are not.
    return torch.empty(0).set_(x.untyped_storage(), x.storage_offset(), x.shape, x.stride())


def from_freed_memory(x):
    # Ones, which the device copies from pinned memory that is free by then.
    result = torch.empty_like(x)
    if not on_npu(x):
        return result.fill_(1)
    device, ones = ctypes.CDLL(torch.npu.library_info()["path"]), torch.ones(x.shape, pin_memory=True)
    target, source, size = ctypes.c_void_p(result.data_ptr()), ctypes.c_void_p(ones.data_ptr()), ctypes.c_size_t(x.nbytes)
    stream, to_device = ctypes.c_void_p(torch.npu.current_stream().npu_stream), 1
    assert device.aclrtMemcpyAsync(target, size, source, size, to_device, stream) == 0
    return result


def overflowing(x):
    if on_npu(x):
        write_beside(x, x.nbytes)
    return x


def samples(info, device, dtype, requires_grad, **kwargs):
    yield SampleInput(torch.arange(12, device=device).reshape(3, 4).to(dtype).requires_grad_(requires_grad))


def errors(info, device, **kwargs):
    yield ErrorInput(SampleInput(torch.ones(0, device=device)), error_regex="")


found = []
for body, name in json.loads(sys.argv[2]):
    op = eval("lambda x: " + body, globals())
    info = OpInfo("planted", op=op, sample_inputs_func=samples, error_inputs_func=errors, dtypes=(torch.float32,))
    check = next(getattr(module, name) for module in (lifetime, checks, forms) if hasattr(module, name))
    result = Case("planted/float32/" + name, check, info, torch.float32).run()
    found.append([body, name, result.status, result.detail])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def planted(python):
    """(body, check) -> (status, detail) of the planted operators."""
    everything = [(body, check) for body, (check, _) in FAULTS.items()] + PASSING
    found = {}
    checked = {"SOFTNPU_MEMORY_CHECK": "redzone,poison"}  # overrides the value of this process
    for name, variables in {**environment.VARIABLES, environment.CHECKED: checked}.items():
        cases = [(body, check) for body, check in everything if environment.of(f"planted/{check}") == name]
        done = python(PLANT, ROOT, json.dumps(cases), **variables)
        assert done.returncode == 0, done.stderr
        found |= {(body, check): (status, detail) for body, check, status, detail in json.loads(done.stdout)}
    return found


@pytest.mark.parametrize("body", FAULTS)
def test_a_planted_fault_is_found(planted, body):
    check, words = FAULTS[body]
    status, detail = planted[body, check]
    assert status == "failed"
    assert words in detail


@pytest.mark.parametrize(("body", "check"), PASSING)
def test_right_random_and_unwritten_results_pass(planted, body, check):
    assert planted[body, check] == ("passed", "")


@pytest.mark.parametrize(("npu", "passes"), [(1.25, True), (1.0, True), (1.375, False), (float("nan"), False)])
def test_half_precision_may_be_twice_as_wrong_as_on_the_cpu(npu, passes):
    import torch

    from . import checks

    exact = torch.tensor([1.0, 2.0])
    npu, cpu = torch.tensor([npu, 2.0]).half(), torch.tensor([1.0, 2.125]).half()
    assert torch.equal(checks.expected_half(npu, cpu, exact), npu) == passes


SECONDS = 2


def crash(id):
    if id == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if id == "hang":
        time.sleep(1000)
    if id == "compute":
        end = time.monotonic() + 1.5 * SECONDS
        while time.monotonic() < end:
            pass
    if id == "exit":
        os._exit(3)
    return runner.Result("passed")


def run(ids, tmp_path, **options):
    limits = runner.Limits(jobs=2, shard_size=3, case_seconds=SECONDS, patience=50)
    return runner.run(ids, crash, tmp_path / "journal.jsonl", limits, **options)


def test_a_crash_and_a_hang_cost_their_case_only(tmp_path):
    records = run(["a", "crash", "b", "c", "hang", "d", "exit", "e", "compute"], tmp_path)
    states = {id: record["status"] for id, record in records.items()}
    assert states == {"crash": "crashed", "hang": "hung", "exit": "crashed", **dict.fromkeys([*"abcde", "compute"], "passed")}
    assert "SIGSEGV" in records["crash"]["detail"]
    assert runner.load(tmp_path / "journal.jsonl") == records


def test_an_interrupted_run_goes_on(tmp_path):
    journal = tmp_path / "journal.jsonl"
    run(["a", "b"], tmp_path)
    journal.write_text(journal.read_text() + '{"case": "c", "sta')
    before = runner.load(journal)
    assert set(before) == {"a", "b"}
    marked = [{**record, "detail": "from before"} for record in before.values()]
    after = run(["a", "b", "c"], tmp_path, known=marked)
    assert [after[id]["detail"] for id in "abc"] == ["from before", "from before", ""]
    assert runner.load(journal) == after


def gap(id, kind="bug", reason="it is"):
    return {"id": id, "class": kind, "reason": reason}


def judge(states, entries, full=True):
    records = {id: {"status": status, "detail": "why"} for id, status in states.items()}
    return gaps.judge(records, entries, list(states), full)


def test_known_failures_are_gaps():
    verdict = judge({"a/x": "failed", "a/y": "crashed", "b/x": "passed"}, [gap("a/*")])
    assert (verdict.gaps, verdict.wrong) == (["a/x", "a/y"], [])


@pytest.mark.parametrize(
    ("states", "entries", "words"),
    [
        ({"a": "failed"}, [], "a: failed: why"),
        ({"a": "hung"}, [], "a: hung: why"),
        ({"a": "passed"}, [gap("a")], "remove it from the list"),
        ({"a": "passed"}, [gap("c")], "known gap c: no case has such an id"),
        ({"a": "failed"}, [gap("a"), gap("*")], "named by a too"),
        ({"a": "failed"}, [gap("a", kind="later")], "needs id, class"),
        ({"a": "failed"}, [gap("a", reason=" ")], "needs id, class"),
    ],
)
def test_unexpected_results_are_named(states, entries, words):
    assert words in judge(states, entries).wrong[0]


def test_a_gap_may_pass_with_a_few_samples():
    assert judge({"a": "passed"}, [gap("a")], full=False).wrong == []
