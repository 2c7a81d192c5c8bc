"""torch_npu.utils: combined tensors, FLOP counts, thread affinity, asynchronous checkpoints, synchronised batch norm."""

import io
import os
import threading

import pytest
import torch
import torch.multiprocessing as mp
import torch_npu
from torch.utils.flop_counter import FlopCounterMode
from torch_npu.utils import (
    FlopsCounter,
    get_part_combined_tensor,
    is_combined_tensor_valid,
    npu_combine_tensors,
    reset_thread_affinity,
    save_async,
    set_thread_affinity,
)
from torch_npu.utils.syncbatchnorm import SyncBatchNorm

from tests.compare import assert_same


def test_combined_tensors_are_views_with_their_old_values():
    tensors = [torch.arange(6.0).reshape(2, 3).npu(), torch.ones(2, device="npu"), torch.full((), 7.0, device="npu")]
    flat = npu_combine_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 1, 1, 7]
    assert [tensor.shape for tensor in tensors] == [(2, 3), (2,), ()]
    flat.mul_(2)
    assert tensors[0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert get_part_combined_tensor(flat, 6, 2).tolist() == [2, 2]
    get_part_combined_tensor(flat, 8, 1).zero_()
    assert tensors[2] == 0
    assert is_combined_tensor_valid(flat, tensors)
    assert not is_combined_tensor_valid(flat, [*tensors, torch.ones(2, device="npu")])


def test_combined_tensors_keep_layouts_and_can_skip_the_copy_of_values():
    images = torch.randn(2, 3, 4, 5).to("npu", memory_format=torch.channels_last)
    before = images.cpu()
    npu_combine_tensors([images])
    assert images.is_contiguous(memory_format=torch.channels_last) and torch.equal(images.cpu(), before)
    npu_combine_tensors([images], require_copy_value=False)
    assert (images == 0).all()


def test_a_tensor_outside_of_the_combined_one_is_not_valid():
    a, b, empty = torch.ones(3, device="npu"), torch.ones(2, 2, device="npu"), torch.ones(0, 2, device="npu")
    flat = npu_combine_tensors([a, empty, b])
    assert is_combined_tensor_valid(flat, [b, empty, a]) and not is_combined_tensor_valid(flat[:5], [a, b])
    assert not is_combined_tensor_valid(flat, [a, None]) and not is_combined_tensor_valid(flat, [flat[::2]])
    a.data = torch.ones(3, device="npu")
    assert not is_combined_tensor_valid(flat, [a, b])


def test_combining_without_values_raises_versions_and_combining_with_them_does_not():
    x = torch.ones(3, device="npu", requires_grad=True)
    npu_combine_tensors([x])
    assert x._version == 0 and x.is_leaf
    npu_combine_tensors([x], require_copy_value=False)
    assert x._version == 1


def test_combining_no_elements_gives_none():
    assert npu_combine_tensors([]) is None
    assert npu_combine_tensors([torch.empty(0, device="npu")]) is None
    assert get_part_combined_tensor(torch.ones(2, device="npu"), 1, 0) is None
    assert is_combined_tensor_valid(None, []) and not is_combined_tensor_valid(None, [torch.ones(1)])


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (lambda: [torch.ones(1)], r"must be on npu, but number 0 is on cpu: move it by \.npu\(\)"),
        (lambda: [torch.ones(1, device="npu"), None], "number 1 is None"),
        (lambda: [torch.ones(1).npu(), torch.ones(1).half().npu()], "number 0 is torch.float32 .* number 1 is torch.float16"),
        (lambda: [torch.ones(4, device="npu")[::2]], r"must be contiguous, but number 0 has the strides \(2,\)"),
        (lambda: [torch.ones(1, device="npu")] * 2, "must not share memory, but numbers 0 and 1 do: clone one of them"),
        (lambda: [*(x := torch.ones(4, device="npu")).split(2), x[1:2]], "must not share memory, but numbers 0 and 2 do"),
    ],
)
def test_tensors_that_cannot_be_combined_are_named(tensors, message):
    with pytest.raises(RuntimeError, match=message):
        npu_combine_tensors(tensors())


def test_a_part_must_lie_within_the_combined_tensor():
    with pytest.raises(RuntimeError, match="has 3 elements, but 2 to 4 were asked for"):
        get_part_combined_tensor(torch.ones(3, device="npu"), 2, 2)


def test_flops_are_counted_forward_and_backward():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 5)).npu()
    x = torch.randn(2, 3, 4, 4, device="npu")
    with FlopCounterMode(display=False) as expected:
        model(x).sum().backward()
    counter = FlopsCounter()
    assert counter.get_flops() == [0, 0]
    counter.start()
    model(x).sum().backward()
    once = expected.get_total_flops()
    assert once > 0 and counter.get_flops() == [once, once]
    counter.pause()
    model(x).sum().backward()
    assert counter.get_flops() == [once, 2 * once]
    counter.resume()
    model(x).sum().backward()
    assert counter.get_flops() == [2 * once, 3 * once]
    counter.stop()
    assert counter.get_flops() == [0, 0]
    model(x)
    assert counter.get_flops() == [0, 0]


def in_a_thread(function):
    """Calls function() in a new thread, whose affinity may change. Returns the result or the exception."""
    result = []

    def body():
        try:
            result.append(function())
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return result[0]


def test_a_thread_is_bound_to_cores():
    available = sorted(os.sched_getaffinity(0))
    last = available[-1]

    def bind(*ranges):
        def body():
            for cores in ranges:
                set_thread_affinity(cores)
            return os.sched_getaffinity(0)

        return in_a_thread(body)

    assert bind([last, last]) == {last}
    assert bind([[last, last], [available[0], available[0]]]) == {last, available[0]}
    assert bind([last, last], None) == set(available)
    assert in_a_thread(lambda: (set_thread_affinity([last, last]), reset_thread_affinity(), os.sched_getaffinity(0))[2]) == set(
        available
    )


@pytest.mark.parametrize("cores", [[1, 0], [0], [-1, 0], "0-3", [], [0.0, 1.0], [[0, 0], 1], [100000, 100000]])
def test_bad_cores_are_named(cores):
    error = in_a_thread(lambda: set_thread_affinity(cores))
    assert isinstance(error, ValueError) and repr(cores) in str(error)


def test_a_checkpoint_holds_the_values_of_the_call(tmp_path):
    weight = torch.nn.Parameter(torch.ones(1000, device="npu"))
    state = {"weight": weight, "epoch": 3}
    writing = save_async(state, tmp_path / "checkpoint.pt")
    with torch.no_grad():
        weight.zero_()
    writing.join()
    loaded = torch_npu.utils.serialization.load(tmp_path / "checkpoint.pt")
    assert loaded["epoch"] == 3 and loaded["weight"].is_npu and (loaded["weight"] == 1).all()
    buffer = io.BytesIO()
    save_async(state, buffer).join()
    buffer.seek(0)
    assert (torch.load(buffer)["weight"] == 0).all()


def test_a_checkpoint_that_cannot_be_written_fails_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        save_async({}, tmp_path / "nowhere" / "checkpoint.pt")
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module or None, not int"):
        save_async({}, tmp_path / "checkpoint.pt", model=1)


def normalised(device, function, x):
    x = x.detach().to(device).requires_grad_()
    weight, bias = (torch.linspace(1, 2, 3).to(device).requires_grad_() for _ in range(2))
    mean, var = torch.zeros(3, device=device), torch.ones(3, device=device)
    out = function(x, weight, bias, mean, var)
    (out * torch.linspace(0, 1, out.numel(), device=device).view_as(out)).sum().backward()
    return [out, x.grad, weight.grad, bias.grad, mean, var]


def on_cpu(x, weight, bias, mean, var):
    return torch.nn.functional.batch_norm(x, mean, var, weight, bias, True, 0.1, 1e-5)


def test_a_batch_norm_of_one_process_needs_no_group():
    x = torch.randn(4, 3, 5, 2)
    got = normalised("npu", lambda *a: SyncBatchNorm.apply(*a, 1e-5, 0.1, None, 1), x)
    assert_same(got, normalised("cpu", on_cpu, x))
    with pytest.raises(ValueError, match="more than one value per channel"):
        normalised("npu", lambda *a: SyncBatchNorm.apply(*a, 1e-5, 0.1, None, 1), torch.randn(1, 3))
    with pytest.raises(RuntimeError, match=r"needs torch\.distributed\.init_process_group first"):
        normalised("npu", lambda *a: SyncBatchNorm.apply(*a, 1e-5, 0.1, None, 2), x)


def process(rank, folder):
    torch.distributed.init_process_group("gloo", f"file://{folder}/store", world_size=2, rank=rank)
    x = torch.load(f"{folder}/x.pt").chunk(2)[rank].npu().requires_grad_()
    weight, bias = (torch.linspace(1, 2, 3).npu() for _ in range(2))
    mean, var = torch.zeros(3, device="npu"), torch.ones(3, device="npu")
    group = torch.distributed.group.WORLD
    out = SyncBatchNorm.apply(x, weight, bias, mean, var, 1e-5, 0.1, group, 2)
    (out * out).sum().backward()
    torch.save([each.detach().cpu() for each in (out, x.grad, mean, var)], f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_a_batch_norm_of_two_processes_is_that_of_the_whole_batch(tmp_path):
    x = torch.randn(4, 3, 5, 2, requires_grad=True)
    torch.save(x.detach(), tmp_path / "x.pt")
    mp.start_processes(process, (str(tmp_path),), nprocs=2, start_method="spawn")
    mean, var = torch.zeros(3), torch.ones(3)
    out = on_cpu(x, torch.linspace(1, 2, 3), torch.linspace(1, 2, 3), mean, var)
    (out * out).sum().backward()
    halves = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for index, expected in enumerate([out.detach(), x.grad]):
        torch.testing.assert_close(torch.cat([half[index] for half in halves]), expected, rtol=1e-4, atol=1e-5)
    for half in halves:
        torch.testing.assert_close(half[2:], [mean, var])
