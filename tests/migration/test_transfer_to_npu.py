"""Programs that were written for CUDA (tests/migration/programs) run on npu unchanged, and do what they do on the CPU."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_npu.contrib import transfer_to_npu

transfer_to_npu.undo()


PROGRAMS = Path(__file__).with_name("programs")


# Relative tolerance; this program uses half precision.
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
def test_the_import_line_works_before_and_after_import_torch(python, first):
    done = python(f"{first}\nimport torch\nprint(torch.cuda.is_initialized(), torch.ones(2, device='cuda').sum().cuda().item())")
    assert (done.stdout, done.stderr, done.returncode) == ("False 2.0\n", NOTICE + "\n", 0)


def test_names_imported_before_the_transfer_use_npu_too(python):
    done = python(
        f"""
        from torch import device, full, Generator, Tensor, zeros
        {IMPORT}
        print(zeros(2, device="cuda").device, full((1,), 1.0, device=device("cuda")).is_cuda, Generator("cuda").device)
        """
    )
    assert (done.stdout, done.returncode) == ("npu:0 True npu:0\n", 0), done.stderr


def test_torch_compile_works_after_the_transfer(python):
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


def test_dynamo_keeps_its_rules_when_they_are_built_again_during_the_transfer():
    def function(x):
        return x + 1, torch.npu.is_available()

    x = torch.ones(2, device="npu")
    torch.compile(function, backend="eager", fullgraph=True)(x)
    trace_rules = torch._dynamo.trace_rules
    with transfer_to_npu.scope():
        trace_rules.clear_lru_cache()  # as init_process_group() does
        assert torch.npu.is_available not in trace_rules.get_torch_obj_rule_map()
        torch.compiler.reset()
        assert torch.compile(function, backend="eager", fullgraph=True)(x)[1] is True


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


def test_undo_restores_torch():
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


def test_classes_defined_during_the_transfer_work_after_undo():
    with transfer_to_npu.scope():

        class Mark(torch.Event):
            pass

        assert Mark("cuda").device.type == "cuda" and Mark("cuda").device == torch.device("npu")
    assert Mark("npu").device == torch.device("npu")
    with pytest.raises(RuntimeError, match="cuda"):
        Mark("cuda")


@pytest.mark.usefixtures("transferred")
def test_nccl_means_hccl(tmp_path):
    assert torch.distributed.is_nccl_available()
    torch.distributed.init_process_group("nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert torch.distributed.get_backend() == "hccl"
        value = torch.ones(2, device="cuda")
        torch.distributed.all_reduce(value)
        assert value.tolist() == [1, 1]
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("transferred")
class TestWhatCannotBeMigrated:
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
def test_streams_and_events_have_the_handle_names_of_cuda():
    stream = torch.cuda.Stream()
    assert stream.cuda_stream == stream.npu_stream != 0
    event = stream.record_event()
    assert event.cuda_event == event.npu_event


@pytest.mark.usefixtures("transferred")
def test_features_of_cuda_alone_do_nothing():
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
