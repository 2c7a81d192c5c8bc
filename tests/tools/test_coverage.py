"""`python -m torch_npu.coverage`: scripts, models and profiles; bad input is one sentence."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_npu.tools.coverage import command
from torch_npu.tools.report import read_data

TRAIN = """
import sys
import torch

assert torch.cuda.is_available() and sys.argv[1:] == ["--epochs", "9"]
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
order = torch.randperm(8)
for step in range(1000):
    x = torch.ones(8, 4)[order].to("cuda", non_blocking=True)
    loss = model(x).sigmoid().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""


def cover(tmp_path, capsys, program, *options, arguments=()):
    """The exit status, the data of the JSON file and what was printed."""
    script, out = tmp_path / "program.py", tmp_path / "out.json"
    script.write_text(program)
    status = command.main(["--json", str(out), *options, str(script), *arguments])
    return status, json.loads(out.read_text()), capsys.readouterr()


def operators(data):
    return {row["operator"]: row for row in data["operators"]}


def test_a_training_script_for_cuda_ends_after_the_steps(tmp_path, capsys):
    page = tmp_path / "out.html"
    status, data, printed = cover(tmp_path, capsys, TRAIN, "--html", str(page), arguments=["--epochs", "9"])
    found = operators(data)
    assert status == 0
    assert data["outcome"]["ended"] == "stopped" and data["outcome"]["steps"] == 2
    assert data["counts"]["unsupported"] == data["counts"]["fallback"] == data["counts"]["unknown"] == 0
    assert found["aten::sigmoid"]["calls"] == 2 and found["aten::sigmoid"]["dtype"] == "float32"
    assert found["aten::sigmoid"]["sites"] == [f"{tmp_path / 'program.py'}:11"]
    assert found["aten::sigmoid_backward"]["backward"] == 2
    assert "aten::randperm" not in found and data["host_calls"] > 0  # the program keeps it on the CPU
    assert "0 missing" in printed.out and "aten::sigmoid" in printed.out
    assert "0 " in printed.err  # what the script prints
    assert read_data(page.read_text()) == data


def test_operators_of_the_host_are_listed_on_request(tmp_path, capsys):
    _, data, _ = cover(tmp_path, capsys, TRAIN, "--all", arguments=["--epochs", "9"])
    assert "aten::randperm" in operators(data)


def test_a_program_that_moves_nothing_is_judged_as_a_whole(tmp_path, capsys):
    _, data, _ = cover(tmp_path, capsys, "import torch\ntorch.ones(2).exp()")
    assert set(operators(data)) == {"aten::ones", "aten::exp"}


def test_fallbacks_and_missing_operators(tmp_path, capsys):
    program = """
import torch
library = torch.library.Library("coverage_test", "DEF")
library.define("cpu_only(Tensor x) -> Tensor")
library.impl("cpu_only", lambda x: x + 1, "CPU")
library.define("first(Tensor(a) x) -> Tensor(a)")
library.impl("first", lambda x: x[:1], "CPU")
x = torch.ones(3).cuda()
torch.ops.coverage_test.cpu_only(x)
torch.ops.coverage_test.first(x)
x.exp()
"""
    status, data, printed = cover(tmp_path, capsys, program)
    found = operators(data)
    assert status == 1
    assert found["coverage_test::cpu_only"]["status"] == "fallback"
    assert found["coverage_test::first"]["status"] == "unsupported" and "view" in found["coverage_test::first"]["reason"]
    assert found["aten::exp"]["status"] == "supported"
    assert data["operators"][0]["operator"] == "coverage_test::first"  # the worst comes first
    assert "falls back  coverage_test::cpu_only" in printed.out


def test_dtypes_that_the_chip_lacks(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SOFTNPU_CHIP_LIMITS", "1")
    status, data, _ = cover(
        tmp_path, capsys, "import torch\nx = torch.ones(2, dtype=torch.float64).cuda()\nx.float().exp()\nx.exp()"
    )
    found = {(row["operator"], row["dtype"]): row["status"] for row in data["operators"]}
    assert status == 1
    assert found["aten::exp", "float64"] == "unsupported" and found["aten::exp", "float32"] == "supported"
    assert found["aten::_to_copy", "float64"] == "supported"


def test_an_error_of_the_script_keeps_what_it_did(tmp_path, capsys):
    status, data, printed = cover(tmp_path, capsys, "import torch\ntorch.ones(2).cuda().exp()\nraise KeyError('lost')\n")
    assert status == 3
    assert "aten::exp" in operators(data)
    assert data["outcome"]["said"] == f"KeyError at {tmp_path / 'program.py'}:3: 'lost'"
    assert "raise KeyError('lost')" in printed.out and "runpy" not in printed.out


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("def broken(:", "SyntaxError"),
        ("import sys; sys.exit('no data')", "sys.exit('no data')"),
        ("import no_such_module", "ModuleNotFoundError"),
    ],
)
def test_programs_that_cannot_run(tmp_path, capsys, program, words):
    status, data, _ = cover(tmp_path, capsys, program)
    assert status == 3 and words in data["outcome"]["said"]


def test_the_time_limit_ends_a_program(tmp_path, capsys):
    status, data, _ = cover(tmp_path, capsys, "import torch\nwhile True:\n    torch.ones(2).exp()", "--time-limit", "0.5")
    assert status == 0 and data["outcome"]["said"] == "stopped after 0.5 seconds (--time-limit)"


def test_fake_tensors_give_the_operators_of_npu(tmp_path, capsys):
    program = """
import torch
model = torch.nn.Linear(1 << 20, 1 << 20).cuda()      # 4 TiB
query = torch.ones(1, 2, 8, 16, device="cuda", requires_grad=True)
loss = torch.nn.functional.scaled_dot_product_attention(query, query, query).sum()
loss = loss + model(torch.ones(1, 1 << 20, device="cuda")).sum()
print(loss.item(), len(loss.detach().reshape(1).nonzero()))
assert query[0, 0, 0, :2].tolist() == [1, 1] and query.detach().cpu().numpy().shape == (1, 2, 8, 16)
loss.backward()
"""
    status, data, _ = cover(tmp_path, capsys, program, "--trace")
    found = operators(data)
    assert status == 0, data["outcome"]
    assert "aten::_scaled_dot_product_fused_attention_overrideable_backward" in found
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" not in found
    assert all("program.py:" in row["sites"][0] for row in found.values())


def test_what_fake_tensors_cannot_do_is_named(tmp_path, capsys):
    program = "import torch\ntorch.ones(2).cuda().exp()\ntorch.jit.trace(torch.exp, torch.ones(2))"
    status, data, _ = cover(tmp_path, capsys, program, "--trace")
    assert status == 3 and "torch.jit.trace needs tensors with data" in data["outcome"]["said"]
    assert "aten::exp" in operators(data)
    assert torch.jit.trace(torch.exp, torch.ones(2))(torch.zeros(2)).tolist() == [1, 1]


def test_a_model_by_its_factory(tmp_path, capsys):
    (tmp_path / "net.py").write_text("import torch\ndef build():\n    return torch.nn.Conv2d(3, 4, 3)\n")
    out = tmp_path / "out.json"
    for options in ([], ["--trace"]):
        assert command.main(["--json", str(out), *options, "--input", "1x3x8x8", f"{tmp_path / 'net.py'}:build"]) == 0
        assert {"aten::convolution", "aten::convolution_backward"} <= set(operators(json.loads(out.read_text())))
    assert command.main(["--json", str(out), "--inference", "--input", "1x3x8x8", f"{tmp_path / 'net.py'}:build"]) == 0
    assert "aten::convolution_backward" not in operators(json.loads(out.read_text()))


@pytest.fixture(scope="module")
def profiled():
    model, x = torch.nn.Linear(4, 3), torch.ones(2, 4)
    with torch.autograd.profiler.profile() as by_autograd:  # as the documents do
        model(x).sum().backward()
    with torch.profiler.profile(record_shapes=True) as by_profiler:
        torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3)).half()
    return by_autograd, by_profiler


def test_profiles_of_pytorch(profiled, tmp_path, capsys):
    by_autograd, by_profiler = profiled
    table, trace, packed, out = (tmp_path / name for name in ("table.txt", "trace.json", "trace.json.gz", "out.json"))
    table.write_text(by_autograd.key_averages().table(sort_by="self_cpu_time_total"))
    by_profiler.export_chrome_trace(str(trace))
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert command.main(["--json", str(out), str(table)]) == 0
    found = operators(json.loads(out.read_text()))
    assert found["aten::addmm"]["calls"] == 1 and found["aten::addmm"]["status"] == "supported"
    for file in (trace, packed):
        assert command.main(["--json", str(out), str(file)]) == 0
        found = operators(json.loads(out.read_text()))
        assert found["aten::conv2d"]["dtype"] == "float32"
        assert "aten::mkldnn_convolution" not in found  # inside of aten::convolution, on the CPU only


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["missing.py"], "missing.py does not exist"),
        (["."], "is a folder"),
        (["no_such_module:factory"], "No module named 'no_such_module'"),
        (["torch.nn:nothing"], "torch.nn has no nothing"),
        (["torch.nn:Identity"], "a module without inputs"),
        (["--input", "1x", "torch.nn:Identity"], "--input is a shape"),
        (["--max-steps", "-1", "a.py"], "a whole number of at least 0, but got '-1'"),
        (["--time-limit", "soon", "a.py"], "a number of seconds"),
        (["--json", "no/where.json", "a.py"], "the folder no does not exist"),
        (["--html", ".", "a.py"], "is a folder"),
        (["empty.txt"], "holds no operators"),
        (["broken.json"], "is no valid JSON"),
        (["broken.gz"], "damaged gzip"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, capsys, given, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("nothing here")
    (tmp_path / "broken.json").write_text('{"traceEvents": [')
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8bxx")
    with pytest.raises(SystemExit) as end:
        command.main(given)
    assert end.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.gz", "broken.json", "empty.txt"]


# The others need what the CPU cannot stand for: TorchScript that moves tensors to CUDA, torch.Event("cuda"), default types of
# CUDA, and random numbers of two devices.
PROGRAMS = (
    "amp_training", "checkpoints", "data_loading", "device_questions", "graph_network", "language_model", "prefetching",
    "profiling", "training_main",
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_for_cuda(name, tmp_path, monkeypatch):
    program = Path(__file__).resolve().parents[1] / "migration" / "programs" / f"{name}.py"
    monkeypatch.chdir(tmp_path)
    assert command.main(["--json", "out.json", str(program)]) == 0
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["outcome"]["ended"] != "failed" and data["counts"]["fallback"] == 0 and data["counts"]["supported"] >= 3


def test_the_command_runs_by_its_module_name(tmp_path):
    (tmp_path / "program.py").write_text("import torch\ntorch.ones(2).cuda().exp()\n")
    line = [sys.executable, "-m", "torch_npu.coverage", "program.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "operators: " in done.stdout and "program.py:2" in done.stdout
