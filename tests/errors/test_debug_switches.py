"""torch.npu.debug: operators chosen by an expression run on the CPU, are compared with it, or are printed; others are unchanged.

PLANT registers wrong kernels. A child process imports it too, so that a saved script reproduces the difference."""

import io
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch_npu

debug = torch.npu.debug

PLANT = '''
import torch
import torch_npu

WRONG = {
    "mul.Tensor": lambda self, other: torch.add(self, other),
    "add_.Tensor": lambda self, other, alpha=1: self.sub_(other),
    "sub.out": lambda self, other, alpha=1, out=None: torch.add(self, other, out=out),
    "_foreach_mul_.Scalar": lambda self, scalar: torch._foreach_add_(self, scalar) and None,
    "transpose.int": lambda self, dim0, dim1: self.view(self.shape[::-1]),
    "threshold_backward": lambda grad_output, self, threshold: grad_output.clone(),
    "fill_.Scalar": lambda self, value: self.zero_(),
}


class Planted:
    """The wrong kernels, until remove()."""

    def __init__(self, names):
        self.library = torch.library.Library("aten", "IMPL")
        for name in names:
            self.library.impl(name, WRONG[name], "PrivateUse1")

    def remove(self):
        self.library._destroy()
'''
namespace = {}
exec(PLANT, namespace)


@pytest.fixture
def plant():
    planted = []

    def plant(*names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            planted.append(namespace["Planted"](names))

    yield plant
    for each in planted:
        each.remove()


@pytest.fixture
def x():
    torch.npu.reset_fallback_stats()
    return torch.arange(6.0, device="npu").reshape(2, 3)


def report_of(capsys):
    return capsys.readouterr().err


# ---- names ----


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("add", "aten::add.Tensor", "aten::addmm"),
        ("add", "aten::add.out", "aten::add_.Tensor"),
        ("add.Tensor", "aten::add.Tensor", "aten::add.out"),
        ("aten::add", "aten::add.Tensor", "aten::sub.Tensor"),
        ("add.*", "aten::addmm", "aten::_foreach_add.List"),
        ("exp|relu_?", "aten::relu_", "aten::exp2"),
        (".*", "aten::fill_.Scalar", "aten::linear"),  # linear is composed above autograd: only its parts are matched
    ],
)
def test_an_expression_matches_whole_names_with_or_without_namespace_and_overload(pattern, matched, not_matched):
    with debug.print_ops(pattern, file=io.StringIO()) as switch:
        assert matched in switch.operators
        assert not_matched not in switch.operators


@pytest.mark.parametrize("switch", [debug.force_fallback, debug.compare, debug.print_ops])
def test_bad_expressions_are_refused_and_useless_ones_warned_about(switch):
    with pytest.raises(ValueError, match=r"'\(' is no regular expression"):
        switch("(")
    with pytest.raises(TypeError, match=r"regular expression such as '.\*softmax', but got None"):
        switch(None)
    with pytest.warns(UserWarning, match="'nothing_like_it' matches no operator") as warned:
        switch("nothing_like_it").close()
    assert warned[0].filename == __file__


@pytest.mark.parametrize("switch", [debug.force_fallback, debug.compare, debug.print_ops])
def test_kernels_of_watched_operators_are_restored(switch, x):
    names = ["aten::exp", "aten::mul.Tensor", "aten::ones_like", "aten::mul.out"]
    before = [torch._C._dispatch_dump(name) for name in names]
    with switch("exp|ones_like"):
        during = [torch._C._dispatch_dump(name) for name in names]
    assert [one == other for one, other in zip(before, during, strict=True)] == [False, True, False, True]
    assert [torch._C._dispatch_dump(name) for name in names] == before
    torch.testing.assert_close(x.exp().cpu(), x.cpu().exp())


def test_switches_on_one_operator_go_in_any_order(x):
    lines = io.StringIO()
    printed, forced, compared = debug.print_ops("mul", file=lines), debug.force_fallback("mul"), debug.compare("mul")
    assert (x * 2).sum().item() == 30
    printed.close()
    assert (x * 2).sum().item() == 30
    forced.close()
    assert (x * 2).sum().item() == 30
    compared.close()
    compared.close()
    assert lines.getvalue().count("aten::mul.Tensor") == 1
    assert torch.npu.fallback_stats() == {"aten::mul.Tensor": 2}
    assert compared.compared == {"aten::mul.Tensor": 3}


# ---- fallback ----


def test_forced_operators_run_on_the_cpu_in_strict_mode_too(x):
    assert torch.npu.is_strict_fallback()
    with warnings.catch_warnings(), debug.force_fallback("exp|add_|_foreach_mul|relu|threshold_backward"):
        warnings.simplefilter("error")
        y = x.exp()
        x.add_(1)
        torch._foreach_mul([x, y], 2)
        z = y.detach().requires_grad_()
        z.relu().sum().backward()
    assert y.device.type == "npu"
    torch.testing.assert_close(y.cpu(), torch.arange(6.0).reshape(2, 3).exp())
    assert x.sum().item() == 21
    assert torch.npu.fallback_stats() == dict.fromkeys(
        ["aten::_foreach_mul.Scalar", "aten::add_.Tensor", "aten::exp", "aten::relu", "aten::threshold_backward"], 1
    )


def test_a_training_step_may_be_forced_as_a_whole():
    def step(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten())
        net = net.to(device)
        optimizer = torch.optim.Adam(net.parameters(), foreach=True)
        loss = net(torch.linspace(-1, 1, 50).reshape(2, 1, 5, 5).to(device)).square().sum()
        loss.backward()
        optimizer.step()
        return [loss.detach().cpu(), *(parameter.detach().cpu() for parameter in net.parameters())]

    with debug.force_fallback(".*") as switch:
        torch.testing.assert_close(step("npu"), step("cpu"))
    assert "aten::view" not in switch.operators and "aten::copy_" not in switch.operators
    assert {"aten::native_batch_norm", "aten::native_batch_norm_backward"} & set(torch.npu.fallback_stats())


# ---- comparison ----

CALLS = {
    "mul.Tensor": lambda x: x * (x + 1),
    "add_.Tensor": lambda x: x[:, 1:].add_(x[:, 1:].clone()),
    "sub.out": lambda x: torch.sub(x, 1.5, out=torch.empty(0, device="npu")),
    "_foreach_mul_.Scalar": lambda x: torch._foreach_mul_([x, x.clone()], 3.0),
    "transpose.int": lambda x: x.transpose(0, 1),
    "threshold_backward": lambda x: (x - 2.5).requires_grad_().relu().sum().backward(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_kernel_is_found(name, x, plant, tmp_path, capsys):
    plant(name)
    with debug.compare(".*", folder=tmp_path) as switch:
        CALLS[name](x.clone())
        CALLS[name](x.clone())
    report = report_of(capsys)
    first = f"aten::{name}"
    assert report.startswith(f"torch_npu: {first} on npu differs from the CPU\n")
    assert switch.differences[first] == 2
    assert report.count(f"{first} on npu differs") == 1
    assert "with self: " in report or "with grad_output: " in report
    assert (tmp_path / f"aten.{name}.py").exists()


def test_a_report_names_operator_arguments_difference_and_line(x, plant, tmp_path, capsys):
    plant("mul.Tensor")
    with debug.compare("mul", folder=tmp_path):
        x.t() * torch.tensor([2.0, 2.0], device="npu")
    report = report_of(capsys).splitlines()
    assert report[0] == "torch_npu: aten::mul.Tensor on npu differs from the CPU"
    assert report[1].startswith(f"  called from {__file__}:")
    assert report[1].endswith(" in test_a_report_names_operator_arguments_difference_and_line")
    assert report[2] == "  with self: float32[3, 2]/(1, 3) npu:0, other: float32[2]/(1,) npu:0"
    assert "  Mismatched elements: 5 / 6 (83.3%)" in report
    assert "  Greatest absolute difference: 3.0 at index (2, 1) (up to 1e-05 allowed)" in report
    assert any(line.startswith("  Greatest relative difference: inf at index (0, 0)") for line in report)
    assert report[-1] == f"  to repeat it: python {tmp_path / 'aten.mul.Tensor.py'}"


def test_the_first_difference_may_be_an_error(x, plant, tmp_path):
    plant("mul.Tensor", "threshold_backward")
    with debug.compare(".*", folder=tmp_path, raises=True):
        with pytest.raises(RuntimeError, match=r"aten::mul\.Tensor on npu differs from the CPU"):
            x * x
        loss = (x - 2.5).requires_grad_().relu().sum()
        with pytest.raises(RuntimeError, match=r"(?s)aten::threshold_backward on npu differs.*called from the backward pass"):
            loss.backward()


def test_a_composite_operator_is_compared_after_its_parts(plant, tmp_path, capsys):
    plant("fill_.Scalar")
    with debug.compare("full|fill_", folder=tmp_path):
        torch.full((3,), 2.0, device="npu")
    heads = [line for line in report_of(capsys).splitlines() if "differs from" in line]
    assert heads == [f"torch_npu: aten::{name} on npu differs from the CPU" for name in ("fill_.Scalar", "full")]


def test_right_kernels_pass_and_random_or_uninitialised_results_are_not_compared(tmp_path, capsys):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Dropout(), torch.nn.Linear(8, 2)
    )
    net = net.npu()
    with debug.compare(".*", folder=tmp_path, raises=True) as switch:
        for dtype in (torch.float32, torch.bfloat16):
            net.to(dtype)(torch.randn(3, 4, device="npu", dtype=dtype)).sum().backward()
            torch.optim.AdamW(net.parameters(), foreach=True).step()
        buffer = torch.arange(8.0, device="npu")
        buffer[:4].copy_(buffer[4:])
        torch.view_as_complex(buffer.view(4, 2)).conj().sum().real.item()
        buffer.view(torch.int32).bitwise_and_(1)
        buffer.clone().requires_grad_().sgn().sum().backward()
        torch.empty(3, device="npu").uniform_()
    assert {"aten::addmm", "aten::gelu_backward", "aten::_foreach_sqrt", "aten::copy_", "aten::view"} <= set(switch.compared)
    skipped = {name: switch.skipped[name] for name in ("aten::native_dropout", "aten::uniform_", "aten::empty.memory_format")}
    assert list(skipped.values()) == ["it is random", "it is random", "its result is uninitialised"]
    assert not switch.differences and report_of(capsys) == "" and list(tmp_path.iterdir()) == []


def test_tolerances_are_those_of_torch_testing_or_given(x, plant, tmp_path, capsys):
    plant("mul.Tensor")
    with debug.compare("mul", folder=tmp_path, rtol=0, atol=10) as switch:
        x * x[:1]
    assert not switch.differences and switch.compared["aten::mul.Tensor"] == 1


def run(path, *, planted):
    """Runs a script in a new process. Returns its exit status and output."""
    before = "import plant; plant.planted = plant.Planted(sys.argv[2:]); " if planted else ""
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(path.parent)!r}); {before}runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, path, *planted], capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def test_a_saved_script_reproduces_the_difference(x, plant, tmp_path):
    names = ["mul.Tensor", "add_.Tensor"]
    Path(tmp_path, "plant.py").write_text(PLANT)
    plant(*names)
    with debug.compare(".*", folder=tmp_path):
        # A zero-dimensional CPU tensor stays on the CPU, and views of one buffer stay views of it.
        x * torch.tensor(3.0)
        x[:, 1:].add_(x[:, :-1], alpha=1)
    for name, mismatched in zip(names, ("6 / 6", "3 / 4"), strict=True):
        path = tmp_path / f"aten.{name}.py"
        status, output = run(path, planted=names)
        assert status == 1 and f"Mismatched elements: {mismatched}" in output, output
        assert run(path, planted=[]) == (0, "npu and the CPU agree\n")
    text = Path(tmp_path, "aten.mul.Tensor.py").read_text()
    assert "torch.ops.aten.mul.Tensor(given[0], host[1])" in text
    assert len(torch.load(tmp_path / "aten.add_.Tensor.pt")) == 2


# ---- print ----


def test_calls_are_printed_with_arguments_results_and_line(x):
    lines = io.StringIO()
    with debug.print_ops("add.Tensor|_foreach_add|aten::sum|zeros_like|sort.stable|sigmoid_backward", file=lines):
        torch.add(x.t(), 2, alpha=3)
        torch._foreach_add([x], 1.5)
        torch.zeros_like(x, dtype=torch.int64)
        x.sort(dim=1)
        torch.sigmoid(x.requires_grad_()).sum().backward()
    lines = lines.getvalue().splitlines()
    where = f"  # {__file__}:"
    assert [line.partition(where)[0] for line in lines if where in line] == [
        "aten::add.Tensor(self: float32[3, 2]/(1, 3) npu:0, other: 2, alpha: 3) -> float32[3, 2]/(1, 3) npu:0",
        "aten::_foreach_add.Scalar(self: [float32[2, 3]/(3, 1) npu:0], scalar: 1.5) -> [float32[2, 3]/(3, 1) npu:0]",
        "aten::zeros_like(self: float32[2, 3]/(3, 1) npu:0, dtype: torch.int64, pin_memory: False) -> int64[2, 3]/(3, 1) npu:0",
        "aten::sort.stable(self: float32[2, 3]/(3, 1) npu:0, stable: False, dim: 1, descending: False)"
        " -> (float32[2, 3]/(3, 1) npu:0, int64[2, 3]/(3, 1) npu:0)",
        "aten::sum(self: float32[2, 3]/(3, 1) npu:0) -> float32[]/() npu:0",
    ]
    assert lines[-1].startswith("aten::sigmoid_backward(") and lines[-1].endswith("  # the backward pass, or C++")


def test_an_operator_with_its_own_kernel_is_printed_as_one_call(x):
    lines = io.StringIO()
    with debug.print_ops("silu_backward|mul", file=lines):
        torch.nn.functional.silu(x.requires_grad_()).sum().backward()
    assert lines.getvalue().count("\n") == 1 and lines.getvalue().startswith("aten::silu_backward(")


def test_tensors_can_become_parameters_while_operators_are_watched(x):
    with debug.print_ops(".*", file=io.StringIO()):
        assert torch.nn.Parameter(x).is_npu
        assert torch.nn.Buffer(x.clone()).is_npu


def test_operators_that_fall_back_are_seen_as_well(x):
    library = torch.library.Library("debug_test", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CPU")
    torch.npu.set_strict_fallback(False)
    lines = io.StringIO()
    with warnings.catch_warnings(), debug.print_ops("debug_test::.*", file=lines), debug.compare("double") as compared:
        warnings.simplefilter("ignore")
        torch.ops.debug_test.double(x)
    assert lines.getvalue().startswith("debug_test::double(x: float32[2, 3]/(3, 1) npu:0) -> float32[2, 3]/(3, 1) npu:0")
    assert compared.compared == {"debug_test::double": 1} and not compared.differences


# ---- environment ----


def test_the_environment_sets_switches_from_the_start(child, tmp_path):
    Path(tmp_path, "plant.py").write_text(PLANT)
    program = """
        import sys, warnings
        sys.path.insert(0, sys.argv[1])
        import torch
        x = torch.arange(4.0, device="npu")
        print(x.exp().sum().item() > 0, torch.npu.fallback_stats())
        x.neg()
        with torch.npu.debug.force_fallback("mul"):  # the CPU's kernel is right
            x * 2
    """
    environment = {
        "TORCH_NPU_FORCE_FALLBACK": "exp",
        "TORCH_NPU_PRINT_OPS": "neg",
        "TORCH_NPU_COMPARE": "mul",
        "TORCH_NPU_COMPARE_DIR": str(tmp_path / "found"),
    }
    done = child(program, tmp_path, **environment)
    assert done.stdout == "True {'aten::exp': 1}\n", done.stderr
    assert done.stderr.startswith("aten::neg(self: float32[4]/(1,) npu:0) -> float32[4]/(1,) npu:0  # <string>:")
    assert not Path(tmp_path, "found").exists()


def test_the_environment_may_make_the_first_difference_an_error(child, tmp_path):
    program = """
        import torch
        library = torch.library.Library("env_test", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: x * 3, "PrivateUse1")
        import torch_npu
        torch.ops.env_test.twice(torch.ones(2, device="npu"))
    """
    environment = {"TORCH_NPU_COMPARE": "twice", "TORCH_NPU_COMPARE_RAISE": "1", "TORCH_NPU_COMPARE_DIR": str(tmp_path)}
    done = child(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0", **environment)
    assert "RuntimeError: env_test::twice on npu differs from the CPU" in done.stderr
    assert Path(tmp_path, "env_test.twice.pt").exists()


def test_a_bad_expression_in_the_environment_stops_the_import(child, python):
    done = child("import torch_npu", TORCH_DEVICE_BACKEND_AUTOLOAD="0", TORCH_NPU_COMPARE="add(")
    assert done.returncode == 1
    assert "ValueError: the environment variable TORCH_NPU_COMPARE is 'add(', which is no regular expression" in done.stderr
    done = python("import torch; print(hasattr(torch, 'npu'))", TORCH_NPU_COMPARE="add(")
    assert done.stdout == "False\n" and "torch_npu was not loaded, so there is no device npu: the environment" in done.stderr
    done = child("import torch_npu", TORCH_NPU_PRINT_OPS="no_such_operator")
    assert done.returncode == 0 and "'no_such_operator' matches no operator" in done.stderr


def test_the_module_is_reached_by_both_names():
    assert torch_npu.npu.debug is torch.npu.debug
