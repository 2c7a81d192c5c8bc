"""CudaOnCpu: programs for CUDA run on the CPU and see CUDA; torch is as before afterwards."""

import copy
import threading

import pytest
import torch
from torch_npu.contrib._cuda_alias.cpu_target import CudaOnCpu


@pytest.fixture
def places():
    with CudaOnCpu() as places:
        yield places


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, device="cuda"),
        lambda: torch.ones(2, device="cuda:0"),
        lambda: torch.ones(2, device=torch.device("cuda")),
        lambda: torch.ones(2, device=0),
        lambda: torch.ones(2).cuda(),
        lambda: torch.ones(2).cuda(0, non_blocking=True),
        lambda: torch.ones(2).to("cuda"),
        lambda: torch.ones(2).to("cuda", torch.float64),
        lambda: torch.ones(2).to(device="cuda", dtype=torch.float64),
        lambda: torch.ones(2).to(torch.ones(1, device="cuda")),
        lambda: torch.tensor([1, 2], device="cuda"),
        lambda: torch.ones(2).cuda()[:1],
        lambda: torch.ones(2).cuda() + 1,
        lambda: torch.zeros_like(torch.ones(2).cuda()),
        lambda: torch.ones(2).cuda().new_zeros(3),
        lambda: torch.ones(2).cuda().data,
        lambda: torch.cuda.FloatTensor([1, 2]),
        lambda: torch.ones(2).type(torch.cuda.HalfTensor),
        lambda: torch.ones(2).type("torch.cuda.HalfTensor"),
        lambda: torch.nn.Linear(2, 2).cuda().weight,
        lambda: torch.nn.Linear(2, 2).to("cuda").bias,
        lambda: torch.nn.Linear(2, 2, device="cuda").weight,
        lambda: torch.randn(2, generator=torch.Generator("cuda"), device="cuda"),
        lambda: torch.eye(2).to_sparse().cuda(),
        lambda: torch.randn(2, 2, device="cuda").requires_grad_().exp(),
    ],
)
def test_tensors_of_cuda(places, make):
    tensor = make()
    assert places.holds(tensor) and tensor.is_cuda and not tensor.is_cpu
    assert tensor.device == torch.device("cuda", 0) and tensor.get_device() == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2),
        lambda: torch.ones(2).cuda().cpu(),
        lambda: torch.ones(2).cuda().to("cpu"),
        lambda: torch.ones(2).cuda().to(torch.ones(1)),
        lambda: torch.zeros_like(torch.ones(2).cuda(), device="cpu"),
        lambda: torch.nn.Linear(2, 2).cuda().cpu().weight,
    ],
)
def test_tensors_of_the_cpu(places, make):
    tensor = make()
    assert not places.holds(tensor) and not tensor.is_cuda
    assert tensor.device == torch.device("cpu")


def test_a_copy_between_devices_copies(places):
    here = torch.zeros(2)
    there = here.cuda()
    there += 1
    back = there.cpu()
    back += 1
    assert (here.tolist(), there.tolist(), back.tolist()) == ([0, 0], [1, 1], [2, 2])
    assert there.cuda() is there and there.to("cuda") is there


def test_training_with_mixed_precision(places):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)
    with torch.autocast("cuda"):
        out = model(torch.ones(2, 4, device="cuda"))
        assert out.dtype == torch.float16 and torch.is_autocast_enabled("cuda")
    scaler.scale(out.float().sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert all(parameter.grad.is_cuda for parameter in model.parameters())
    assert optimizer.state[model[0].weight]["exp_avg"].is_cuda
    assert copy.deepcopy(model)[0].weight.is_cuda


def test_checkpoints_and_functions_of_torch_cuda(places, tmp_path):
    torch.save(torch.ones(2), tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt", map_location="cuda:0").is_cuda
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
        start.record()
        end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) == 0 and torch.cuda.max_memory_allocated() == 0
    torch.set_default_device("cuda")
    try:
        assert torch.zeros(2).is_cuda
    finally:
        torch.set_default_device(None)


def test_threads_of_a_program(places):
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.ones(2, device="cuda").is_cuda))
    thread.start()
    thread.join()
    assert found == [True]


def test_torch_is_restored():
    names = ("device", "is_cuda", "type", "pin_memory")
    before = [vars(torch.Tensor).get(name) for name in names], torch.Generator, torch.compile, dict(vars(torch.cuda))
    with pytest.raises(KeyError), CudaOnCpu():
        raise KeyError
    after = [vars(torch.Tensor).get(name) for name in names], torch.Generator, torch.compile, dict(vars(torch.cuda))
    assert before == after
    assert not torch.ones(2).is_cuda


def test_memory_that_is_used_again_is_not_on_cuda(places):
    for _ in range(3000):
        torch.ones(7, device="cuda")
        assert not torch.ones(7).is_cuda
