"""Programs that were written for CUDA (tests/migration) run on npu unchanged, and do what they do on the CPU."""

import argparse
import copy
import io
import json
import logging
import os
import pickle
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from torch_npu.contrib import transfer_to_npu

transfer_to_npu.undo()

PROGRAMS = Path(__file__).parent / "migration"
# Relative; that of half precision.
TOLERANCE = {"amp_training": 5e-2}
IMPORT = "import torch_npu.contrib.transfer_to_npu"
NOTICE = "transfer_to_npu: cuda means npu from now on (undo() ends it)"


@pytest.fixture
def transferred():
    with transfer_to_npu.scope():
        yield


def assert_close(found, expected, tolerance):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, tolerance)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert found == expected


@pytest.fixture
def result_of(monkeypatch, capfd):
    def run(name):
        monkeypatch.setattr(sys, "argv", [name, "--gpu", "0"])
        torch.compiler.reset()
        runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
        return json.loads(capfd.readouterr().out.splitlines()[-1])

    return run


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:CUDA is not available")
@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.py")))
def test_a_program_for_cuda_does_what_it_does_on_the_cpu(result_of, name):
    assert not torch.cuda.is_available()
    on_cpu = result_of(name)
    with transfer_to_npu.scope():
        assert torch.cuda.is_available()
        assert_close(result_of(name), on_cpu, TOLERANCE.get(name, 1e-4))


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.py")))
def test_a_program_for_cuda_in_a_process_of_its_own(result_of, name):
    command = [sys.executable, "-W", "ignore", PROGRAMS / f"{name}.py", "--gpu", "0"]
    done = subprocess.run(command, env={**os.environ, "TORCH_TRANSFER_TO_NPU": "1"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert NOTICE in done.stderr
    assert_close(json.loads(done.stdout.splitlines()[-1]), result_of(name), TOLERANCE.get(name, 1e-4))


@pytest.mark.parametrize("first", [IMPORT, f"import torch.cuda.amp\n{IMPORT}", "from torch_npu.contrib import transfer_to_npu"])
def test_one_line_is_enough_wherever_it_stands(python, first):
    done = python(f"{first}\nimport torch\nprint(torch.cuda.is_initialized(), torch.ones(2, device='cuda').sum().cuda().item())")
    assert (done.stdout, done.stderr, done.returncode) == ("False 2.0\n", NOTICE + "\n", 0)


def test_names_that_were_imported_before_mean_npu_too(python):
    done = python(
        f"""
        from torch import device, full, Generator, Tensor, zeros
        {IMPORT}
        print(zeros(2, device="cuda").device, full((1,), 1.0, device=device("cuda")).is_cuda, Generator("cuda").device)
        """
    )
    assert (done.stdout, done.returncode) == ("npu:0 True npu:0\n", 0), done.stderr


def test_torch_compile_may_come_after_it(python):
    done = python(
        f"""
        {IMPORT}
        import sys, torch
        weight = torch.ones(2, device="cuda", requires_grad=True)
        assert "torch._dynamo" not in sys.modules
        torch.optim.SGD([weight], lr=0.1)
        assert "torch._dynamo" in sys.modules
        def function(x):
            stream = torch.cuda.current_stream()
            with torch.cuda.device(1):
                there = torch.ones(1, device="cuda")
            with torch.cuda.stream(torch.cuda.Stream()):
                y = x * 2
            torch.cuda.synchronize()
            return y.sum(), there, torch.cuda.current_device(), torch.cuda.is_available()
        y, there, *rest = torch.compile(function, backend="eager", fullgraph=True)(weight)
        print(y.item(), there.device, rest)
        torch_npu.contrib.transfer_to_npu.undo()
        print(torch.cuda.is_available(), torch.cuda.current_device is torch.npu.current_device)
        """
    )
    assert (done.stdout, done.stderr) == ("4.0 npu:1 [0, True]\nFalse False\n", NOTICE + "\n")


def test_torch_compile_needs_no_backend():
    def function(x):
        return (x.sin() * 2).sum()

    x = torch.linspace(0, 1, 5)
    with transfer_to_npu.scope():
        there = x.cuda().requires_grad_()
        compiled = torch.compile(function, fullgraph=True)(there)
        compiled.backward()
        torch.testing.assert_close(compiled.cpu(), function(x))
        torch.testing.assert_close(there.grad.cpu(), 2 * x.cos())
    torch.compiler.reset()
    with pytest.raises(Exception, match="the backend inductor generates no code for npu"):
        torch.compile(function)(x.npu())


def test_a_real_cuda_device_is_named_in_the_notice(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with transfer_to_npu.scope():
        pass
    assert "the 2 CUDA devices of this machine cannot be reached meanwhile" in caplog.text


def test_a_cuda_backend_of_torch_is_not_reached_until_undo(python):
    done = python(
        f"""
        import torch
        backend = torch.library.Library("aten", "IMPL", "CUDA")
        def real(*args, **kwargs): raise RuntimeError("the real thing")
        backend.impl("empty.memory_format", real)
        torch.cuda._lazy_init = lambda: None
        {IMPORT}
        print(torch.empty(2, device="cuda").device, torch.ones(2).to("cuda").device)
        torch_npu.contrib.transfer_to_npu.undo()
        try: torch.empty(2, device="cuda")
        except RuntimeError as error: print(error)
        """
    )
    assert done.stdout == "npu:0 npu:0\nthe real thing\n" and NOTICE in done.stderr, done.stderr


def surface():
    modules = [torch, torch.cuda, torch.cuda.amp, torch.cuda.memory, torch.cuda.nvtx, torch.cuda.random, torch.cuda.streams]
    modules += [torch.backends.cudnn, torch.distributed, torch.serialization, torch.jit, torch.autograd.profiler]
    return {owner: dict(vars(owner)) for owner in [*modules, torch.Tensor, torch.nn.Module, torch.amp.autocast]}


def test_undo_leaves_torch_as_it_was():
    import builtins

    before, known = surface(), dict(vars(builtins))
    packages = list(torch.serialization._package_registry)
    with transfer_to_npu.scope():
        assert vars(builtins) == known
        assert "torch.cuda.is_available" in transfer_to_npu.table() and "torch.Tensor.cuda" in transfer_to_npu.table()
        assert transfer_to_npu.is_applied()
        with transfer_to_npu.scope():
            pass
        assert torch.ones(2, device="cuda").is_cuda
    for owner, names in surface().items():
        changed = [name for name in names.keys() | before[owner].keys() if names.get(name) is not before[owner].get(name)]
        assert not changed, (owner, changed)
    assert torch.serialization._package_registry == packages
    assert transfer_to_npu.table() == []
    assert torch.device("cuda").type == "cuda" != torch.device("npu").type
    assert not torch.ones(2).npu().is_cuda
    with pytest.raises((NotImplementedError, RuntimeError), match="CUDA"):
        torch.empty(2, device="cuda")
    with pytest.raises(RuntimeError, match=r"(?i)cuda"):
        torch.ones(2).to("cuda")


def test_classes_made_meanwhile_are_as_others_after_undo():
    with transfer_to_npu.scope():

        class Mark(torch.Event):
            pass

        assert Mark("cuda").device.type == "cuda" and Mark("cuda").device == torch.device("npu")
    assert Mark("npu").device == torch.device("npu")
    with pytest.raises(RuntimeError, match="cuda"):
        Mark("cuda")


@pytest.mark.parametrize("device", ["cpu", "meta", "npu:0", "npu:1"])
def test_other_devices_are_not_touched(transferred, device):
    x = torch.ones(2, device=device)
    assert x.device == torch.device(device) and str(x.device) == device
    assert x.is_cuda == x.is_npu == device.startswith("npu")
    assert (x.device.type == "cuda") == device.startswith("npu")
    assert x.to(device) is x


@pytest.mark.usefixtures("transferred")
class TestDevices:
    def test_every_spelling_is_the_same_device(self):
        spellings = ["cuda:1", torch.device("cuda:1"), torch.device("cuda", 1), torch.device(type="cuda", index=1), 1, "npu:1"]
        for spelling in spellings:
            assert torch.ones(2, device=spelling).device == torch.device("npu:1")
            assert torch.ones(2).to(spelling).device == torch.ones(2).cuda(spelling).device == torch.device("cuda:1")

    def test_a_tensor_that_is_there_is_not_copied(self):
        x = torch.ones(2, device="cuda")
        assert x.cuda() is x.to("cuda") is x.to("cuda:0") is x.to(torch.device("cuda")) is x.to("cuda", torch.float32) is x
        assert x.to("cuda", copy=True) is not x
        module = torch.nn.Linear(2, 2).cuda()
        weight = module.weight
        assert module.to("cuda").cuda(0).weight is weight and weight.is_cuda

    def test_gradients_cross(self):
        x = torch.ones(2, requires_grad=True)
        (x.to("cuda") * x.cuda()).sum().backward()
        assert x.grad.tolist() == [2, 2] and not x.grad.is_cuda

    @pytest.mark.parametrize(
        "make",
        [
            lambda device: torch.arange(3, device=device),
            lambda device: torch.eye(2, device=device),
            lambda device: torch.empty_strided((2, 2), (1, 2), device=device).fill_(1),
            lambda device: torch.linspace(0, 1, 3, device=device),
            lambda device: torch.tril_indices(3, 3, device=device),
            lambda device: torch.hann_window(4, device=device),
            lambda device: torch.tensor([[1.0]], device=device, requires_grad=True),
            lambda device: torch.as_tensor([1], device=device),
            lambda device: torch.zeros_like(torch.ones(2), device=device),
            lambda device: torch.ones(2).new_full((2,), 3.0, device=device),
            lambda device: torch.ones(2).new_tensor([1.0], device=device),
            lambda device: torch.fft.fftfreq(4, device=device),
            lambda device: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device=device, check_invariants=True).to_dense(),
            lambda device: torch.nn.Embedding(3, 2, device=device, _weight=torch.ones(3, 2).to(device)).weight,
            lambda device: torch.nn.Conv2d(1, 1, 1, device=device).to(device).weight * 0,
        ],
    )
    def test_factories(self, make):
        made = make("cuda")
        assert made.is_cuda
        assert torch.equal(made.cpu(), make("cpu"))

    def test_what_a_device_is_called(self):
        x = torch.ones(2, device="cuda:1")
        for name in (str(x.device), f"{x.device}", x.device.type, torch.device("cuda").type):
            assert "cuda" in name and name.startswith("cuda") and name.startswith(("xpu", "cuda"))
            assert "npu" in name and name.startswith("npu") and not name.startswith("cpu") and "xpu" not in name
        assert (
            str(x.device) == "cuda:1" == str(torch.device("cuda", 1)) and str(x.device) == "npu:1" and str(x.device) != "cuda:0"
        )
        assert repr(x.device) == "device(type='npu', index=1)" and f"on {x.device}" == "on npu:1"
        assert torch.device(str(x.device)) == x.device and json.loads(json.dumps(str(x.device))) == "npu:1"
        assert x.type() == "torch.cuda.FloatTensor" == x.cpu().type(x.type()).type() and x.type() != "torch.cuda.HalfTensor"
        assert x.type().startswith("torch.cuda") and not x.cpu().type().startswith("torch.cuda")
        assert not {"cuda" in str(torch.device("cpu")), str(torch.device("meta")) == "cuda"} & {True}
        file = io.BytesIO()
        torch.save({"device": str(x.device), "x": x}, file)
        file.seek(0)
        loaded = torch.load(file, map_location=x.device, weights_only=True)
        assert loaded["device"] == "npu:1" and type(loaded["device"]) is str and loaded["x"].device == x.device

    def test_classes_stay_what_they_are(self):
        assert isinstance(torch.device("cuda"), torch.device) and type(torch.ones(1, device="cuda")) is torch.Tensor
        assert isinstance(torch.cuda.Stream(), torch.Stream) and isinstance(torch.Generator("cuda"), torch.Generator)
        assert isinstance(torch.nn.Parameter(torch.ones(1, device="cuda")), torch.nn.Parameter)

    def test_default_devices(self):
        with torch.device("cuda"):
            assert torch.ones(1).is_cuda
        torch.set_default_device("cuda:1")
        try:
            assert torch.ones(1).get_device() == 1
        finally:
            torch.set_default_device(None)

    def test_a_device_that_is_not_there_is_named(self):
        with pytest.raises(RuntimeError, match="77"):
            torch.ones(1, device="cuda:77")


def test_torch_script_reads_cuda_as_npu(transferred):
    @torch.jit.script
    def there(x: torch.Tensor, device: str):
        if x.to("cuda").device.type == "cuda":
            x = x.cuda() + torch.ones(2, device="cuda")
        return x, x.to(device), torch.device(device), x.to("cpu").device.type

    for _ in range(3):
        x, moved, device, of_cpu = there(torch.ones(2), "cuda:1")
        assert x.device == torch.device("npu:0") and x.tolist() == [2, 2]
        assert moved.device == device == torch.device("npu:1") and of_cpu == "cpu"


def test_torch_script_is_as_it_was_after_undo():
    def kind(device: str):
        return torch.device(device).type

    with transfer_to_npu.scope():
        assert torch.jit.script(kind)("cuda:1") == "cuda"
    assert torch.jit.script(kind)("npu") == "npu"


@pytest.mark.parametrize(("devices", "of_ascend", "count"), [("1,2", None, 2), ("5", "0,1,2", 3)])
def test_devices_are_those_of_cuda_visible_devices(python, devices, of_ascend, count):
    """Set after the import, before a device is used; other processes are not told."""
    done = python(
        f"""
        {IMPORT}
        import os, torch
        os.environ["CUDA_VISIBLE_DEVICES"] = {devices!r}
        print(torch.cuda.device_count(), torch.cuda.is_available())
        print(os.popen("echo $ASCEND_RT_VISIBLE_DEVICES").read().strip())
        """,
        **({} if of_ascend is None else {"ASCEND_RT_VISIBLE_DEVICES": of_ascend}),
        SOFTNPU_DEVICE_COUNT="8",
    )
    assert done.stdout == f"{count} {count > 0}\n{of_ascend or ''}\n", done.stderr


def test_devices_are_all_without_it(python):
    done = python("import torch; print(torch.npu.device_count())", CUDA_VISIBLE_DEVICES="1", SOFTNPU_DEVICE_COUNT="3")
    assert done.stdout == "3\n", done.stderr


def test_pickles_made_with_it_are_read_without_it_and_back():
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


def test_what_a_device_is_called_is_a_str_to_others(monkeypatch, tmp_path):
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


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_the_default_type_may_be_one_of_cuda():
    try:
        with transfer_to_npu.scope():
            for kind in ("torch.cuda.FloatTensor", torch.cuda.FloatTensor):
                torch.set_default_tensor_type(kind)
                assert torch.Tensor([1]).is_cuda and torch.Tensor(2, 3).is_cuda and torch.zeros(1).is_cuda
                torch.set_default_tensor_type(torch.FloatTensor)
                assert not torch.Tensor([1]).is_cuda and not torch.zeros(1).is_cuda
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


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


@pytest.mark.usefixtures("transferred")
class TestWhatCannotBeMigrated:
    def test_nccl_says_what_to_use(self):
        if hasattr(torch.distributed.Backend, "HCCL"):
            pytest.skip("hccl is there")
        with pytest.raises(NotImplementedError, match="this version does not have; use backend='gloo'"):
            torch.distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)

    def test_extensions_of_cuda_kernels(self):
        from torch.utils import cpp_extension

        with pytest.raises(NotImplementedError, match=r"CUDAExtension\('fast'\) compiles CUDA kernels, which do not run on npu"):
            cpp_extension.CUDAExtension("fast", ["fast.cu"])
        with pytest.raises(NotImplementedError, match="the extension fast compiles CUDA kernels"):
            cpp_extension.load("fast", ["fast.cpp", "fast.cu"])

    def test_functions_without_a_counterpart_are_named(self):
        with pytest.raises(NotImplementedError, match=r"torch\.cuda\.list_gpu_processes has no counterpart on npu"):
            torch.cuda.list_gpu_processes()
        with pytest.raises(NotImplementedError, match="cudaMemGetInfo has no counterpart on npu"):
            torch.cuda.cudart().cudaMemGetInfo(0)
        with pytest.raises(AttributeError, match="no attribute 'is_fast'"):
            _ = torch.cuda.is_fast


@pytest.mark.usefixtures("transferred")
def test_every_public_name_of_torch_cuda_answers():
    for name in torch.cuda.__all__:
        assert getattr(torch.cuda, name) is not None, name
    assert torch.cuda.get_device_capability() == (8, 0)
    assert torch.cuda.is_bf16_supported(including_emulation=False)
    assert torch.cuda.get_device_name("cuda:0") == torch.npu.get_device_name(0)
    properties = torch.cuda.get_device_properties("cuda")
    assert (properties.major, properties.minor) == (8, 0)
    assert properties.total_memory == torch.npu.get_device_properties().total_memory and "Ascend" in repr(properties)
    assert isinstance(torch.cuda.has_magma, bool)
    assert torch.cuda.nccl.version() < (2, 0) and not torch.cuda.nccl.is_available([])


@pytest.mark.usefixtures("transferred")
def test_handles_are_found_by_their_names_of_cuda():
    stream = torch.cuda.Stream()
    assert stream.cuda_stream == stream.npu_stream != 0
    event = stream.record_event()
    assert event.cuda_event == event.npu_event


@pytest.mark.usefixtures("transferred")
def test_what_only_cuda_has_does_nothing():
    with torch.autograd.profiler.emit_nvtx(), torch.cuda.profiler.profile(), torch.cuda.nvtx.range("all"):
        assert torch.ones(2, device="cuda").sum().item() == 2


@pytest.mark.parametrize("switch", [{"use_cuda": True}, {"use_device": "cuda"}])
@pytest.mark.usefixtures("transferred")
def test_the_profiler_of_autograd_times_npu(switch, capfd):
    x = torch.ones(300, 300, device="cuda")
    with torch.autograd.profiler.profile(**switch) as recorded:
        x @ x
    assert {event.key: event.device_time_total for event in recorded.key_averages()}["aten::mm"] > 0
    assert "not enabled" not in capfd.readouterr().err
