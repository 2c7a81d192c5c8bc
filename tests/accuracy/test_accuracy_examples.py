"""The programs of examples/accuracy, published samples for whole networks, and docs/accuracy.md."""

from __future__ import annotations

import copy
import re
import runpy
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch_npu
from torch import nn
from torch_npu.accuracy import _command
from torch_npu.tools.accuracy.names import IGNORED_ARGUMENTS, SAME_ARGUMENT, SAME_OPERATOR
from torch_npu.tools.accuracy.verdict import LIMITS
from torch_npu.tools.report import read_data

pytest.importorskip("h5py")
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/accuracy"
GUIDE = (ROOT / "docs/accuracy.md").read_text()


def run(name, *words, monkeypatch):
    """Runs a program in this process and returns its exit status."""
    monkeypatch.setattr(sys, "argv", [name, *words])
    try:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.fixture
def wrong_relu():
    """relu on npu with one wrong element."""
    library = torch.library.Library("aten", "IMPL")

    def relu(x):
        result = x.clamp_min(0)
        result.view(-1)[7] += 100
        return result

    with warnings.catch_warnings(action="ignore"):
        library.impl("relu", relu, "PrivateUse1", allow_override=True)
    yield
    library._destroy()


def test_templates_of_one_operator_and_of_one_module(monkeypatch, capfd):
    assert run("operator_test.py", monkeypatch=monkeypatch) in (0, False)
    assert "Ran 3 tests" in capfd.readouterr().err


def test_the_import_of_the_guide_gives_templates_their_prec():
    names = {}
    exec(re.search(r"`(from torch_npu\.testing\S* import TestCase, run_tests)`", GUIDE)[1], names)
    check = names["TestCase"]().assertEqual
    check(torch.tensor([1.0]).npu(), torch.tensor([1.00005]), prec=1e-4)
    with pytest.raises(AssertionError):
        check(torch.tensor([1.0]).npu(), torch.tensor([1.001]), prec=1e-4)


def test_a_whole_network_agrees(monkeypatch, capsys):
    assert run("whole_network.py", monkeypatch=monkeypatch) == 0
    told = capsys.readouterr().out
    for words in ("forward 0", "backward 4", "gradient of 0.weight", "buffer 1.running_var"):
        assert words in told
    assert float(re.search(r"outputs: (\S+)", told)[1]) < 1e-4


def test_a_whole_network_names_the_first_wrong_module(monkeypatch, wrong_relu):
    assert "forward 2" in run("whole_network.py", monkeypatch=monkeypatch)


def test_dump_and_compare(monkeypatch, tmp_path, capsys):
    assert run("dump_and_compare.py", "--out", str(tmp_path / "right"), monkeypatch=monkeypatch) == 0
    assert "the runs agree" in capsys.readouterr().out


def test_dump_and_compare_names_the_wrong_operator(monkeypatch, tmp_path, capsys, wrong_relu):
    assert run("dump_and_compare.py", "--out", str(tmp_path), monkeypatch=monkeypatch) == 1
    assert "the first wrong operator is relu" in capsys.readouterr().out
    (page,) = tmp_path.glob("*.html")
    data = read_data(page.read_text())
    assert data["first"]["module"] == "ReLU" and "dump_and_compare.py" in data["first"]["line"]
    assert data["modules"]["ReLU"]["error"] == 1 and data["modules"][""]["pass"] > 10
    shown = page.read_text()
    assert "Worst operators" in shown and "▁" in shown


def test_hooks_gradients_and_batch_norm_of_the_published_samples(capsys):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).npu()
    for name, module in model.named_modules():
        for kind, register in (("forward", module.register_forward_hook), ("backward", module.register_backward_hook)):
            register(lambda module, inputs, outputs, word=f"[{kind}]: {name}": print(word, "outputs", outputs))
    model(torch.randn(2, 3, 6, 6).npu()).sum().backward()
    told = capsys.readouterr().out
    assert "[forward]: 2 outputs" in told and "[backward]: 0 outputs" in told and "npu:0" in told
    means = [module.running_mean for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert means[0].abs().sum().item() > 0
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_copy_before_npu_keeps_the_model_of_the_cpu():
    on_cpu = nn.Linear(2, 2)
    on_npu = copy.deepcopy(on_cpu).npu()
    assert on_cpu.weight.device.type == "cpu" and on_npu.weight.device.type == "npu"
    assert on_cpu.npu() is on_cpu and on_cpu.weight.device.type == "npu"


def test_the_guide_has_the_names_the_limits_and_the_files():
    for name, same in SAME_OPERATOR.items():
        if "Backward" in name:
            assert f"`{name}`" in GUIDE and f"`{same}`" in GUIDE
    assert all(f"`{name}`" in GUIDE for name in ("epsilon", "eps", "self", "input", "benchmark", "deterministic", "result3"))
    assert {"benchmark", "deterministic", "result3"} <= IGNORED_ARGUMENTS and SAME_ARGUMENT["epsilon"] == "eps"
    for name, (eps, passing, warning) in LIMITS.items():
        (row,) = re.findall(rf"^\| {name} \| (\S+) \| (\S+) \| (\S+) \|$", GUIDE, re.M)
        assert [2.0 ** float(each.removeprefix("2^")) if each.startswith("2^") else float(each) for each in row] == [
            eps, passing, warning,
        ]  # fmt: skip
    for target in re.findall(r"\]\((\.\./examples/[^)#]+)", GUIDE):
        assert (ROOT / "docs" / target).exists()


def test_commands_of_the_guide_have_the_options_that_it_names():
    options = _command.parser().format_help()
    named = re.findall(r"\[(--[a-z-]+)", GUIDE)
    assert len(named) >= 5 and all(option in options for option in named)
    assert torch_npu.accuracy.PrecisionDebugger and torch_npu.accuracy.seed_all
