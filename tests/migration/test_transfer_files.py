"""Files, graphs and messages that a program writes under transfer_to_npu are read by programs without it."""

import argparse
import copy
import io
import json
import logging
import os
import pickle
import re

import numpy
import pytest
import torch
import torch.multiprocessing
from torch.fx.experimental.proxy_tensor import make_fx
from torch_npu.contrib import transfer_to_npu

transfer_to_npu.undo()

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")


def places(x):
    """Five times x, computed with every way to name the CUDA device."""
    y = x + torch.zeros(x.shape, device="cuda") + torch.zeros(2, device=torch.device("cuda:0")) + x.cpu().cuda()
    return (
        y + torch.zeros_like(x, device="cuda:0") + x.cpu().to("cuda") + x.cpu().to(torch.device("cuda")) + x.to("cuda:0", x.dtype)
    )


class Places(torch.nn.Module):
    def forward(self, x):
        return places(x)


class Script(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros(x.shape, device="cuda") + torch.ones(2, device=torch.device("cuda:0"))
        return x + y + x.cpu().cuda() + x.cpu().to("cuda")


class Mixed(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return x.view(2, 1) @ x.view(1, 2)


def written(write):
    """The file that `write` writes under transfer_to_npu."""
    file = io.BytesIO()
    with transfer_to_npu.scope():
        write(file, torch.ones(2, device="cuda"))
    file.seek(0)
    return file


def read(load, file):
    assert not transfer_to_npu.is_applied()
    return load(file)(torch.ones(2, device="npu"))


@pytest.mark.parametrize("strict", [False, True], ids=["traced", "strict"])
def test_exported_programs_name_npu(strict):
    def write(file, x):
        program = torch.export.export(Places(), (x,), strict=strict)
        assert "cuda" not in program.graph_module.code
        assert program.module()(x).tolist() == [5, 5]
        torch.export.save(program, file)

    out = read(lambda file: torch.export.load(file).module(), written(write))
    assert out.is_npu and out.tolist() == [5, 5]


@pytest.mark.parametrize("strict", [False, True], ids=["traced", "strict"])
def test_exported_programs_cast_on_npu(strict):
    write = lambda file, x: torch.export.save(torch.export.export(Mixed(), (x,), strict=strict), file)  # noqa: E731
    assert read(lambda file: torch.export.load(file).module(), written(write)).dtype == torch.bfloat16


def test_graphs_with_symbolic_sizes_name_npu():
    with transfer_to_npu.scope():
        assert "cuda" not in make_fx(places, tracing_mode="symbolic")(torch.ones(2, device="cuda")).code


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_graphs_of_make_fx_name_npu(mode):
    write = lambda file, x: torch.save(make_fx(places, tracing_mode=mode)(x), file)  # noqa: E731
    assert read(lambda file: torch.load(file, weights_only=False), written(write)).tolist() == [5, 5]


def test_symbolic_traces_name_npu_in_files():
    def write(file, x):
        traced = torch.fx.symbolic_trace(Places())
        assert traced(x).tolist() == [5, 5]
        torch.save(traced, file)
        assert traced(x).tolist() == [5, 5]

    assert read(lambda file: torch.load(file, weights_only=False), written(write)).tolist() == [5, 5]


class Around(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


SCRIPTS = {
    "traced": (lambda x: torch.jit.trace(Places(), x), 5),
    "traced function": (lambda x: torch.jit.trace(places, x), 5),
    "traced within": (lambda x: torch.jit.trace(Around(Places()), x), 5),
    "scripted": (lambda x: torch.jit.script(Script()), 4),
    "scripted within": (lambda x: torch.jit.script(Around(Script())), 4),
    "frozen": (lambda x: torch.jit.freeze(torch.jit.trace(Places().eval(), x)), 5),
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("to_buffer", [False, True])
def test_torchscript_names_npu(name, to_buffer):
    make, expected = SCRIPTS[name]
    if name == "traced function" and to_buffer:
        pytest.skip("a function is saved by torch.jit.save")

    def write(file, x):
        module = make(x)
        if to_buffer:
            file.write(module.save_to_buffer())
        else:
            torch.jit.save(module, file)
        assert module(x).tolist() == [expected] * 2

    out = read(torch.jit.load, written(write))
    assert out.is_npu and out.tolist() == [expected] * 2


@pytest.mark.parametrize("weights_only", [True, False])
def test_plain_files_name_npu(weights_only):
    def write(file, x):
        net = torch.nn.Linear(2, 1).cuda()
        names = {"device": x.device, "type": x.type(), "of": x.device.type, "text": str(x.device)}
        torch.save({"net": net.state_dict(), "x": x, **names}, file)

    file = written(write)
    assert b"cuda" not in file.getvalue()
    back = torch.load(file, weights_only=weights_only)
    assert back["x"].is_npu and back["net"]["weight"].is_npu
    assert (back["type"], back["of"], back["text"]) == ("torch.npu.FloatTensor", "npu", "npu:0")
    assert type(back["of"]) is str and back["device"] == torch.device("npu:0")


def add_one(queue, replies):
    """Runs in a process without transfer_to_npu."""
    for _ in range(queue.get()):
        x = queue.get()
        replies.put(
            (transfer_to_npu.is_applied(), type(x).__name__, str(x.device), x.to_dense().tolist() if x.is_sparse else x.tolist())
        )
        if not x.is_sparse:
            x.data.add_(1)
    torch.npu.synchronize()
    replies.put("done")


@pytest.mark.filterwarnings("ignore:this process ends while others")
def test_tensors_go_to_other_processes():
    context = torch.multiprocessing.get_context("spawn")
    queue, replies = context.Queue(), context.Queue()
    process = context.Process(target=add_one, args=(queue, replies))
    process.start()
    with transfer_to_npu.scope():
        x = torch.ones(3, device="cuda")
        sent = [x, x[1:], torch.nn.Parameter(torch.ones(2, device="cuda")), x.to_sparse()]
        queue.put(len(sent))
        for each in sent:
            queue.put(each)
        answers = [replies.get(timeout=120) for _ in sent]
        assert replies.get(timeout=120) == "done"
        assert [answer[:3] for answer in answers] == [
            (False, name, "npu:0") for name in ("Tensor", "Tensor", "Parameter", "Tensor")
        ]
        assert answers[3][3] == [1, 1, 1]
        assert x.tolist() == [2, 3, 3] and sent[2].tolist() == [2, 2]
    process.join(120)
    assert process.exitcode == 0


def test_a_tensor_that_cannot_be_sent_is_refused_as_without_it():
    with transfer_to_npu.scope():
        x = torch.ones(2, device="cuda", requires_grad=True) * 2
        with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
            torch.multiprocessing.reductions.reduce_tensor(x)


def test_the_out_of_memory_message_names_cuda_too():
    with transfer_to_npu.scope():
        with pytest.raises(torch.cuda.OutOfMemoryError, match=r"^CUDA out of memory\. .*NPU out of memory\. Tried to allocate"):
            torch.empty(1 << 44, device="cuda")
        with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory\. "):
            torch.empty(1 << 44, device="npu")
    with pytest.raises(torch.OutOfMemoryError, match=r"^NPU out of memory\. Tried to allocate"):
        torch.empty(1 << 44, device="npu")


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}


@pytest.mark.parametrize("way", COPIES)
def test_device_properties_are_copied(way):
    npu = COPIES[way](torch.npu.get_device_properties(0))
    assert repr(npu) == repr(torch.npu.get_device_properties(0))
    assert (npu.name, npu.uuid) == (torch.npu.get_device_properties(0).name, torch.npu.get_device_properties(0).uuid)
    with transfer_to_npu.scope():
        cuda = COPIES[way](torch.cuda.get_device_properties(0))
        assert (cuda.major, cuda.minor, cuda.total_memory) == (8, 0, npu.total_memory)
        assert repr(cuda) == repr(npu) and not hasattr(cuda, "absent")


def test_pickles_are_read_with_and_without_transfer():
    def contents():
        model = torch.nn.Linear(2, 2)
        return {
            "device": torch.device("npu:0"),
            "tensor": torch.arange(3).npu(),
            "model": model.npu(),
            "type": torch.device("npu").type,
        }

    def check(loaded):
        assert loaded["device"] == loaded["tensor"].device == loaded["model"].weight.device == torch.device("npu:0")
        assert loaded["tensor"].tolist() == [0, 1, 2]
        assert str.__eq__(loaded["type"], "npu")

    def saved(what):
        file = io.BytesIO()
        torch.save(what, file)
        return file.getvalue()

    plain, plain_file = pickle.dumps(contents()), saved(contents())
    with transfer_to_npu.scope():
        check(pickle.loads(plain))
        check(torch.load(io.BytesIO(plain_file), weights_only=False))
        transferred, file = pickle.dumps(contents()), saved(contents())
    assert b"contrib" not in transferred and b"contrib" not in file and b"cuda" not in file
    check(pickle.loads(transferred))
    loaded = torch.load(io.BytesIO(file), weights_only=False)
    check(loaded)
    assert type(loaded["type"]) is str


def test_a_checkpoint_that_names_devices_is_loaded_without_the_plugin(child, tmp_path):
    with transfer_to_npu.scope():
        x = torch.ones(2, device="cuda")
        torch.save({"device": str(x.device), "type": x.device.type, "tensor": x.type(), "weight": x.cpu()}, tmp_path / "file")
    program = """
        import sys, torch
        loaded = torch.load(sys.argv[1], weights_only=True)
        names = loaded["device"], loaded["type"], loaded["tensor"]
        print(*names, {type(name) for name in names} == {str}, hasattr(torch, "npu"))
        """
    done = child(program, tmp_path / "file", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (done.stdout, done.stderr) == ("npu:0 npu torch.npu.FloatTensor True False\n", "")


def test_the_name_of_a_device_is_a_str_for_other_libraries(monkeypatch, tmp_path):
    yaml = pytest.importorskip("yaml")
    with transfer_to_npu.scope():
        device = torch.ones(1, device="cuda").device
        name = str(device)
        for dump, load in ((yaml.safe_dump, yaml.safe_load), (yaml.dump, yaml.safe_load), (json.dumps, json.loads)):
            assert load(dump({"device": name, name: device.type})) == {"device": "npu:0", "npu:0": "npu"}
        assert yaml.safe_dump([name]) == yaml.dump([name]) == "- npu:0\n"
        assert f"{name} {name:>6} {name!r}" == "npu:0  npu:0 'npu:0'"
        monkeypatch.setenv("WHERE", name)
        assert os.environ["WHERE"] == "npu:0"
        assert {name: 1}["npu:0"] == {"npu:0": 1}[name] == 1
        assert re.match(r"npu:(\d)", name)[1] == "0"
        assert torch.device(name) == device
        assert numpy.array([name, "cpu"]).tolist() == ["npu:0", "cpu"]
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", choices=["cpu", "cuda"], default=device.type)
        assert parser.parse_args([]).device == parser.parse_args(["--device", device.type]).device == "cuda"
        assert logging.LogRecord("", 0, "", 0, "on %s", (name,), None).getMessage() == "on npu:0"
        assert copy.deepcopy({"device": device.type})["device"] == copy.copy(device.type) == "cuda"


def test_a_checkpoint_of_a_cuda_device_is_loaded(monkeypatch):
    file = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        torch.save({"weight": torch.arange(3.0)}, file)
    for location, where in (
        (None, "npu"),
        ("cuda", "npu"),
        ({"cuda:0": "cpu"}, "cpu"),
        ({"cuda:0": "cuda:1"}, "npu"),
        ("cpu", "cpu"),
    ):
        file.seek(0)
        with transfer_to_npu.scope():
            weight = torch.load(file, map_location=location)["weight"]
        assert weight.device.type == where and weight.tolist() == [0, 1, 2]
