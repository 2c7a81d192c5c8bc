"""python -m torch_npu.accuracy: wrong operators, stand-alone programs, first non-finite result, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import pytest
import torch
import torch_npu
from torch_npu.accuracy import _command, beyond_bound
from torch_npu.tools.report import read_data

PLANT = """
import torch, torch_npu
library = torch.library.Library("aten", "IMPL")
library.impl("sigmoid", lambda self: torch.tanh(self.mul(0.5)).mul(0.5).add(0.50005), "PrivateUse1")
"""
TRAIN = """
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 1)

    def forward(self, x):
        return self.last(torch.sigmoid(self.first(x)))  # the line

torch.manual_seed(0)
net = Net().npu()
best = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    best.zero_grad()
    loss = net(torch.randn(16, 8).npu()).square().mean()
    loss.backward()
    best.step()
print("loss", loss.item(), sys.argv[1:])
"""


@pytest.fixture
def run(tmp_path, capsys):
    def call(text, *options):
        (tmp_path / "train.py").write_text(text)
        status = _command.main(["--out", str(tmp_path / "out"), *options, str(tmp_path / "train.py"), "--epochs", "1"])
        return status, capsys.readouterr(), json.loads((tmp_path / "out/report.json").read_text())

    return call


def test_a_right_program_passes(run, tmp_path):
    status, told, data = run(TRAIN)
    assert status == 0 and "no operator is beyond its bound" in told.out and "['--epochs', '1']" in told.err
    assert data["compared"]["aten::sigmoid"] == 3
    assert data["findings"] == [] and read_data((tmp_path / "out/report.html").read_text()) == data


def test_a_wrong_operator_is_named_with_module_and_line(run, tmp_path):
    spaces: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(PLANT, spaces)
    try:
        status, _, data = run(TRAIN)
    finally:
        spaces["library"]._destroy()
    assert status == 1
    (found,) = data["findings"]
    line = TRAIN.splitlines().index(next(each for each in TRAIN.splitlines() if "# the line" in each)) + 1
    assert found["operator"] == "aten::sigmoid" and f"train.py:{line} in forward" in found["line"] and found["module"] == "Net"
    program = found["program"]
    right = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd="/")
    assert right.returncode == 0, right.stderr
    (tmp_path / "plant.py").write_text(PLANT)
    words = "import plant, runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    wrong = subprocess.run([sys.executable, "-W", "ignore", "-c", words, program], capture_output=True, text=True, cwd=tmp_path)
    assert wrong.returncode == 1 and "units of float32" in wrong.stderr


def test_the_first_overflow_of_the_forward_pass(run):
    status, _, data = run("""
import torch
from torch import nn
class Big(nn.Module):
    def forward(self, x):
        y = x * 300
        return y * 300
model = nn.Sequential(nn.Identity(), Big())
model(torch.full((4,), 2.0, dtype=torch.float16).npu())
""")
    assert status == 1 and data["findings"] == []
    assert data["overflow"]["operator"].startswith("aten::mul") and data["overflow"]["module"] == "1"
    assert "train.py:7" in data["overflow"]["line"]


def test_the_first_overflow_of_the_backward_pass(run):
    status, _, data = run("""
import torch
from torch import nn
class Root(nn.Module):
    def forward(self, x):
        return x.sqrt()
x = torch.zeros(4, device="npu", requires_grad=True)
nn.Sequential(Root())(x).sum().backward()
""")
    assert status == 1 and data["overflow"]["module"] == "0" and "backward pass of" in data["overflow"]["line"]
    assert "train.py:6" in data["overflow"]["line"]


def test_a_mask_of_infinities_is_no_overflow(run):
    status, _, data = run("""
import torch
mask = torch.full((4, 4), float("-inf"), device="npu").triu(1)
torch.softmax(torch.randn(4, 4).npu() + mask, -1).masked_fill(mask < 0, float("-inf"))
""")
    assert status == 0 and data["overflow"] is None


def test_a_program_that_fails_or_uses_no_device(run):
    status, told, _ = run("1 / 0")
    assert status == 3 and "ZeroDivisionError" in told.out
    status, told, _ = run("import torch; torch.ones(2) + 1")
    assert status == 0 and "no operator ran on npu" in told.out


def test_operators_in_place_run_once_on_the_copies(run):
    status, _, data = run("""
import torch
count, wide = torch.tensor(3).npu(), torch.ones(3, dtype=torch.float64).npu()
count += 1
wide.add_(2)
""")
    assert status == 0 and data["compared"]["aten::add_.Tensor"] == 2


RECURRENT = """
import torch
from torch import nn
torch.manual_seed(0)
q, k, v = (torch.randn(2, 2, n, 8, device="npu", requires_grad=True) for n in (5, 6, 6))
mask = torch.rand(5, 6) > 0.3
mask[1] = False  # all of a row is masked
for options in ({}, {"attn_mask": mask.npu()}, {"attn_mask": torch.randn(5, 6).npu()}, {"is_causal": True, "scale": 0.5}):
    y = nn.functional.scaled_dot_product_attention(q, k, v, **options)
    (y * torch.randn(y.shape).npu()).sum().backward()
nn.LSTM(8, 4).npu()(torch.randn(3, 2, 8).npu())
nn.GRU(8, 4).npu()(torch.randn(3, 2, 8).npu())
nn.LSTM(8, 4, 2, dropout=0.5).npu().eval()(torch.randn(3, 2, 8).npu())
nn.functional.dropout(torch.ones(9).npu(), 0.5)
"""


def test_attention_and_recurrent_layers_without_dropout_are_compared(run):
    status, told, data = run(RECURRENT, "--first", "9")
    assert status == 0, told.out
    attention, compared = "aten::_scaled_dot_product_fused_attention_overrideable", data["compared"]
    assert compared[attention] == compared[f"{attention}_backward"] == 4
    assert compared["aten::lstm.input"] == 2 and compared["aten::_thnn_fused_gru_cell"] == 3
    assert data["skipped"]["aten::native_dropout"] == "it is random"


@pytest.mark.parametrize("function", ["Attention", "AttentionBackward"])
def test_wrong_attention_alone_is_named(run, function):
    with torch_npu.softnpu.faults(f"wrong:aclnnSoft{function}:1+"):
        status, _, data = run(RECURRENT)
    (found,) = data["findings"]
    ending = "overrideable_backward" if function.endswith("Backward") else "overrideable"
    assert status == 1 and found["operator"] == f"aten::_scaled_dot_product_fused_attention_{ending}"
    for faults, expected in ((f"wrong:aclnnSoft{function}:1+", 1), ("", 0)):
        done = subprocess.run(
            [sys.executable, found["program"]], env={**os.environ, "SOFTNPU_FAULTS": faults}, capture_output=True
        )
        assert done.returncode == expected, done.stderr


def test_calls_inside_a_graph_capture_are_left_out(run):
    status, told, data = run("""
import torch
x, graph = torch.ones(3).npu(), torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = torch.exp(x)
graph.replay()
assert y.isfinite().all()
""")
    assert status == 0 and data["skipped"]["aten::exp"] == "it ran inside a graph capture", told


def test_operators_of_a_compiled_program_are_compared(run):
    program = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).npu()
compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
for _ in range(2):
    compiled(torch.randn(3, 4).npu()).sum().backward()
"""
    status, told, data = run(program)
    assert status == 0 and data["compared"]["aten::addmm"] == 2, told.out
    with torch_npu.softnpu.faults("wrong:aclnnAddmm:1+"):
        status, _, data = run(program)
    assert status == 1 and [found["operator"] for found in data["findings"]] == ["aten::addmm"]


def test_a_full_disk_is_a_sentence_and_the_program_goes_on(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise RuntimeError("[enforce fail at inline_container.cc] unexpected pos")

    monkeypatch.setattr("torch_npu.npu._compare.torch.save", full)
    (tmp_path / "train.py").write_text("import torch\ntorch.nn.functional.gelu(torch.randn(9).npu())\nprint('the end')\n")
    with torch_npu.softnpu.faults("wrong:aclnnGeluV2:1+"):
        status = _command.main(["--out", str(tmp_path / "out"), str(tmp_path / "train.py")])
        told = capsys.readouterr()
        with torch.npu.debug.compare("gelu", folder=tmp_path / "out"):
            torch.nn.functional.gelu(torch.randn(9).npu())
    assert status == 1 and "the end" in told.err and "aten.gelu.py cannot be written" in told.err
    assert "aten::gelu" in told.out and "to repeat it" not in told.out
    assert "aten.gelu.py cannot be written" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("aten.*"))

    def no_space(path, _):
        raise OSError(28, f"{path}: no")

    monkeypatch.setattr("torch_npu.accuracy._command.write_text", no_space)
    assert _command.main(["--out", str(tmp_path / "out"), str(tmp_path / "train.py")]) == 0
    assert "report.json: no; choose another --out" in capsys.readouterr().out


def test_ranks_have_folders_of_their_own(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("import torch\ntorch.exp(torch.ones(3).npu())\n")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert _command.main(["--out", str(tmp_path / "out"), str(tmp_path / "train.py")]) == 0
    assert (tmp_path / "out/rank1/report.json").exists() and not (tmp_path / "out/report.json").exists()


@pytest.mark.parametrize(
    "words", [["none.py"], ["--operators", "(", __file__], ["--operators", "zzz", __file__], ["--first", "x", __file__]]
)
def test_wrong_arguments_are_one_sentence(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        _command.main(words)
    assert end.value.code == 2 and "error:" in capsys.readouterr().err.splitlines()[-1]


def test_bounds():
    x = torch.linspace(1, 2, 50)
    assert beyond_bound(x * (1 + 1e-7), x, x.double()) == ""
    assert "units" in beyond_bound(x * (1 + 1e-4), x, x.double())
    assert beyond_bound(x * (1 + 1e-4), x * (1 - 1e-4), x.double()) == ""  # the CPU has the same error
    assert "must be equal" in beyond_bound(torch.tensor([1]), torch.tensor([2]), None)
    assert "npu gives" in beyond_bound(torch.ones(2), torch.ones(3), None)
    nan = torch.full((2,), float("nan"))
    assert beyond_bound(nan, nan, nan.double()) == "" and "NaN" in beyond_bound(nan, torch.ones(2), torch.ones(2).double())
