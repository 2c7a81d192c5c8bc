"""PrecisionDebugger: the files of msprobe, tasks, levels, choices, gradients, and errors."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch_npu.accuracy import PrecisionDebugger
from torch_npu.capture import Capture, JsonWriter


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x)).mul(2)


def train(debugger, device="npu", steps=1):
    torch.manual_seed(0)
    model = Net().to(device)
    x = torch.randn(3, 4).to(device)
    for _ in range(steps):
        debugger.start(model)
        model(x).sum().backward()
        debugger.stop()
        debugger.step()
    return model, x


def load(folder, name="dump"):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_statistics_of_functions(tmp_path, device):
    _, x = train(PrecisionDebugger(task="statistics", dump_path=tmp_path), device)
    found = load(tmp_path / "step0/rank0")
    assert (found["task"], found["level"], found["framework"], found["dump_data_dir"]) == ("statistics", "L1", "pytorch", None)
    names = [name for name in found["data"] if name.endswith("forward")]
    assert names == [
        "Functional.linear.0.forward", "Functional.relu.0.forward", "Functional.linear.1.forward", "Tensor.mul.0.forward",
        "Tensor.sum.0.forward",
    ]  # fmt: skip
    given = found["data"]["Functional.linear.0.forward"]["input_args"][0]
    assert given["Max"] == pytest.approx(x.max().item()) and given["shape"] == [3, 4] and given["dtype"] == "torch.float32"
    assert given["Norm"] == pytest.approx(x.norm().item(), rel=1e-5) and given["Mean"] == pytest.approx(x.mean().item(), abs=1e-6)
    assert not (tmp_path / "step0/rank0/dump_tensor_data").exists()


def test_gradients_belong_to_the_call(tmp_path):
    model, _ = train(PrecisionDebugger(task="tensor", dump_path=tmp_path))
    folder = tmp_path / "step0/rank0"
    entry = load(folder)["data"]["Functional.linear.1.backward"]
    assert entry["input"][0]["shape"] == [3, 2] and [each["shape"] for each in entry["output"]] == [[3, 8], [2, 8], [2]]
    for place, parameter in ((1, model.head.weight), (2, model.head.bias)):
        saved = torch.load(folder / f"dump_tensor_data/Functional.linear.1.backward.output.{place}.pt", weights_only=True)
        torch.testing.assert_close(saved, parameter.grad.cpu())
        assert saved.device.type == "cpu"


def test_tensors_before_an_in_place_call(tmp_path):
    debugger = PrecisionDebugger(task="tensor", dump_path=tmp_path)
    x = torch.tensor([-1.0, 2.0]).npu()
    debugger.start()
    nn.functional.relu(x, inplace=True)
    x.add_(1)
    debugger.stop()
    folder = tmp_path / "step0/rank0/dump_tensor_data"
    read = lambda name: torch.load(folder / f"{name}.pt", weights_only=True).tolist()  # noqa: E731
    assert read("Functional.relu.0.forward.input.0") == [-1, 2] and read("Functional.relu.0.forward.output.0") == [0, 2]
    assert read("Tensor.add_.0.forward.input.0") == [0, 2] and read("Tensor.add_.0.forward.output.0") == [1, 3]


def test_stack_and_construct(tmp_path):
    train(PrecisionDebugger(dump_path=tmp_path, level="mix"))
    folder = tmp_path / "step0/rank0"
    parents = load(folder, "construct")
    assert parents["Functional.linear.0.forward"] == "Module.body.0.Linear.forward.0"
    assert parents["Module.body.0.Linear.forward.0"] == "Module.body.Sequential.forward.0"
    assert parents["Module.Net.forward.0"] is None
    stacks = {name: lines for names, lines in load(folder, "stack").values() for name in names}
    assert (
        "test_debugger.py" in stacks["Functional.linear.1.forward"][0]
        and "in forward" in stacks["Functional.linear.1.forward"][0]
    )


def test_level_of_modules(tmp_path):
    train(PrecisionDebugger(dump_path=tmp_path, level="L0"))
    data = load(tmp_path / "step0/rank0")["data"]
    assert all(name.startswith("Module.") for name in data)
    assert {"Module.head.Linear.forward.0", "Module.head.Linear.backward.0", "Module.Net.forward.0"} <= set(data)


def test_recording_itself_is_not_recorded(tmp_path):
    for task in ("statistics", "tensor", "overflow_check"):
        train(PrecisionDebugger(task=task, dump_path=tmp_path / task, level="mix"))
    for task in ("statistics", "tensor"):
        data = load(tmp_path / task / "step0/rank0")["data"]
        functions = {name.rpartition(".")[0].rpartition(".")[0] for name in data if not name.startswith("Module.")}
        assert functions == {"Functional.linear", "Functional.relu", "Tensor.mul", "Tensor.sum"}
        linear = data["Functional.linear.0.forward"]
        assert [each["requires_grad"] for each in linear["input_args"]] == [False, True, True]
        assert linear["output"][0]["requires_grad"] is True


def test_steps_lists_and_modes(tmp_path):
    config = tmp_path / "config.json"
    settings = {"list": ["linear"], "data_mode": ["forward", "output"], "scope": []}
    config.write_text(
        json.dumps({"task": "statistics", "dump_path": str(tmp_path / "d"), "rank": [], "step": ["1-2"], "statistics": settings})
    )
    train(PrecisionDebugger(config_path=config), steps=4)
    assert sorted(each.name for each in (tmp_path / "d").iterdir()) == ["step1", "step2"]
    data = load(tmp_path / "d/step2/rank0")["data"]
    assert set(data) == {"Functional.linear.0.forward", "Functional.linear.1.forward"}
    assert set(data["Functional.linear.0.forward"]) == {"output"}


def test_scope_and_md5(tmp_path):
    config = tmp_path / "config.json"
    settings = {"scope": ["Functional.relu.0.forward", "Functional.linear.1.forward"], "summary_mode": "md5"}
    config.write_text(json.dumps({"task": "statistics", "dump_path": str(tmp_path), "statistics": settings}))
    train(PrecisionDebugger(config_path=config))
    data = load(tmp_path / "step0/rank0")["data"]
    assert [name for name in data if "forward" in name] == ["Functional.relu.0.forward", "Functional.linear.1.forward"]
    assert len(data["Functional.relu.0.forward"]["output"][0]["md5"]) == 8


def test_a_list_of_calls_gets_tensors_too(tmp_path):
    config = tmp_path / "config.json"
    settings = {"scope": [], "list": [], "tensor_list": ["linear.1"], "data_mode": ["all"], "summary_mode": "statistics"}
    config.write_text(json.dumps({"task": "statistics", "dump_path": str(tmp_path), "statistics": settings}))
    train(PrecisionDebugger(config_path=config))
    found = load(tmp_path / "step0/rank0")
    names = {each.name for each in (tmp_path / "step0/rank0/dump_tensor_data").iterdir()}
    assert {each.split(".")[2] for each in names} == {"1"} and {each.split(".")[1] for each in names} == {"linear"}
    saved = torch.load(tmp_path / "step0/rank0/dump_tensor_data/Functional.linear.1.forward.output.0.pt")
    assert saved.max().item() == found["data"]["Functional.linear.1.forward"]["output"][0]["Max"]
    assert "data_name" not in found["data"]["Functional.linear.0.forward"]["output"][0]
    assert "Functional.relu.0.forward" in found["data"] and found["task"] == "statistics"


def test_overflow_names_the_call(tmp_path, capsys):
    debugger = PrecisionDebugger(task="overflow_check", dump_path=tmp_path)
    x = torch.full((2,), 6e4, dtype=torch.float16).npu()
    debugger.start()
    ((x + 1) * 2 * 3).sub(1)
    debugger.stop()
    assert list(load(tmp_path / "step0/rank0")["data"]) == ["Tensor.mul.0.forward"]
    assert "Tensor.mul.0.forward" in capsys.readouterr().err


def test_a_nan_only_tensor_and_an_empty_one(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.start()
    torch.full((3,), float("nan")).npu().add(1)
    torch.empty(0).npu().add(1)
    debugger.stop()
    data = load(tmp_path / "step0/rank0")["data"]
    assert data["Tensor.add.0.forward"]["output"][0]["Max"] == "nan" and data["Tensor.add.1.forward"]["output"][0]["Max"] is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "not a JSON file"),
        ("[]", "JSON object"),
        ('{"task": "acc_check"}', "allowed are"),
        ('{"task": "tensor", "tensor": {"lst": []}}', "lst"),
        ('{"level": "L2"}', "L2"),
        ('{"step": ["a"]}', "step"),
        ('{"step": ["7-5"]}', "7-5"),
        ('{"statistics": {"data_mode": ["half"]}}', "half"),
        ('{"statistics": {"scope": ["a"]}}', "scope"),
    ],
)
def test_a_bad_configuration_is_one_sentence(tmp_path, content, told):
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(ValueError, match=told) as error:
        PrecisionDebugger(config_path=tmp_path / "c.json")
    assert "\n" not in str(error.value) and "c.json" in str(error.value)


def test_a_missing_configuration(tmp_path):
    with pytest.raises(OSError, match=r"none\.json"):
        PrecisionDebugger(config_path=tmp_path / "none.json")


def test_a_folder_that_cannot_be_made_is_a_sentence_and_the_program_goes_on(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    train(PrecisionDebugger(dump_path=tmp_path / "file"), steps=2)
    told = capfd.readouterr().err
    assert told.count("cannot be made") == 2 and "step1" in told and "the program goes on" in told


def test_a_full_disk_is_a_sentence_and_the_program_goes_on(tmp_path, monkeypatch, capfd):
    debugger = PrecisionDebugger(task="tensor", dump_path=tmp_path)

    def full(path, text):
        raise OSError(28, f"{path} cannot be written: No space left on device")

    monkeypatch.setattr("torch_npu.accuracy._output.write_text", full)
    monkeypatch.setattr("torch_npu.accuracy._output.torch.save", lambda *_: (_ for _ in ()).throw(RuntimeError("unexpected pos")))
    train(debugger, steps=2)
    told = capfd.readouterr().err
    assert "dump.json cannot be written: No space left on device; the program goes on" in told
    assert ".pt cannot be written; is the disk full?" in told and "step1" in told


@pytest.mark.parametrize("task", ["statistics", "tensor", "overflow_check"])
def test_a_graph_capture_is_left_out_with_a_warning(tmp_path, task):
    x, layer, graph = torch.ones(4).npu(), torch.nn.ReLU(), torch.npu.NPUGraph()
    debugger = PrecisionDebugger(task=task, dump_path=tmp_path, level="mix")
    debugger.start()
    with torch.npu.graph(graph):
        y = layer(x * 2)
    torch.add(x, 1)
    with pytest.warns(UserWarning, match="inside a graph capture were not recorded"):
        debugger.stop()
    graph.replay()
    assert y.tolist() == [2] * 4
    data = json.loads((tmp_path / "step0" / "rank0" / "dump.json").read_text())["data"]
    assert list(data) == ([] if task == "overflow_check" else ["Torch.add.0.forward"])
    assert task == "overflow_check" or data["Torch.add.0.forward"]["output"][0]["Max"] == 2


def test_a_stop_inside_a_graph_capture_is_a_sentence(tmp_path, capfd):
    x, graph = torch.ones(4).npu(), torch.npu.NPUGraph()
    debugger = PrecisionDebugger(task="statistics", dump_path=tmp_path)
    debugger.start()
    torch.add(x, 1)
    with torch.npu.graph(graph):
        debugger.stop()
        y = x * 2
    graph.replay()
    assert y.tolist() == [2] * 4
    assert "statistics are missing" in capfd.readouterr().err
    debugger.start()
    debugger.stop()
    data = json.loads((tmp_path / "step0" / "rank0" / "dump.json").read_text())["data"]
    assert data["Torch.add.0.forward"]["output"][0]["Max"] == 2


@pytest.mark.parametrize(
    ("end", "status"), [("exit()", 0), ("1 / 0", 1), ("os.kill(os.getpid(), 15); import time; time.sleep(9)", -15)]
)
def test_the_files_are_written_when_the_program_ends_early(tmp_path, end, status):
    program = f"""
import os, sys, torch, torch_npu
debugger = torch_npu.accuracy.PrecisionDebugger(task="statistics", dump_path=".")
debugger.start()
torch.add(torch.ones(2).npu(), 1)
if os.fork() == 0:
    sys.exit()
os.wait()
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    data = json.loads((tmp_path / "step0" / "rank0" / "dump.json").read_text())["data"]
    assert data["Torch.add.0.forward"]["output"][0]["Max"] == 2


def test_the_elements_of_storages_are_not_recorded(tmp_path):
    debugger = PrecisionDebugger(task="statistics", dump_path=tmp_path)
    debugger.start()
    torch.empty(0).set_(torch.full((1000,), 7.5).untyped_storage(), 0, (1000,)).neg()
    debugger.stop()
    names = {name.split(".")[1] for name in load(tmp_path / "step0/rank0")["data"]}
    assert names == {"empty", "full", "neg"}


def test_sigterm_of_a_child_leaves_the_files_to_the_parent(tmp_path):
    program = """
import os, signal, time, torch, torch_npu
with torch.utils.dumper(use_dump=True, dump_path="dump.h5"):
    debugger = torch_npu.accuracy.PrecisionDebugger(task="statistics", dump_path=".")
    debugger.start()
    torch.add(torch.ones(2), 1)
    if (child := os.fork()) == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    assert os.listdir("step0/rank0") == []
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(9)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == -15, done.stderr
    assert "Torch.add.0.forward" in load(tmp_path / "step0/rank0")["data"]
    assert (tmp_path / "dump.h5").stat().st_size > 2000  # both are whole


def test_a_compiled_module_stays_whole(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    debugger = PrecisionDebugger(task="statistics", dump_path=tmp_path, level="mix")
    debugger.start(model)
    y = compiled(torch.ones(2, 4))
    torch.neg(y)
    debugger.stop()
    assert "Torch.neg.0.forward" in load(tmp_path / "step0/rank0")["data"]


def test_a_dump_of_a_compiled_module_has_its_operators(tmp_path):
    compiled = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="aot_eager", fullgraph=True)
    with Capture(JsonWriter(tmp_path)) as capture:
        compiled(torch.ones(2, 4)).sum().backward()
    assert capture.failure is None
    names = {name.split(".")[1] for name in load(tmp_path)["data"]}
    assert {"addmm", "relu", "CompiledFunctionBackward"} <= names
