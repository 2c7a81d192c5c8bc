"""Tensors on npu sent to another process: both processes use the same memory, until the last one has released it."""

import ctypes
import gc
import os
import signal
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing

from tests.held_stream import HeldStream
from tests.support import MIB, cached, two_devices
from tests.torch_features.ipc_worker import KEPT, Worker, describe, drop, fill, keep, value_of


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.requests.put(None)
    worker.process.join(120)
    assert worker.process.exitcode == 0


def assert_is(got, x):
    assert isinstance(got, tuple), got
    *facts, values = got
    assert facts == [x.device, x.dtype, x.shape, x.stride(), x.storage_offset(), x.requires_grad, type(x)]
    assert torch.equal(values, x.detach().cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.view(3, 4).t()[1:, ::2],
        lambda x: x[5],
        lambda x: x[:0],
        lambda x: x.repeat(100_000)[7:],
    ],
    ids=["whole", "view", "scalar", "empty", "large"],
)
def test_a_tensor_arrives_as_it_is(worker, make, dtype):
    x = make(torch.arange(12, device="npu").to(dtype))
    assert_is(worker.call(describe, x), x)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_parameters_and_leaves_arrive(worker, requires_grad):
    x = torch.ones(3, device="npu")
    for sent in (torch.nn.Parameter(x, requires_grad=requires_grad), x.clone().requires_grad_(requires_grad)):
        assert_is(worker.call(describe, sent), sent)
    with pytest.raises(RuntimeError, match="non-leaf"):
        worker.requests.put((describe, x.clone().requires_grad_() * 2))


def state_of(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    return {name: value.cpu() for name, value in model.state_dict().items()}


def test_a_shared_module_is_updated_in_place(worker):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).npu().share_memory()
    expected = {name: value.cpu() + ("running" not in name and "num" not in name) for name, value in model.state_dict().items()}
    assert {name: value.tolist() for name, value in worker.call(state_of, model).items()} == {
        name: value.tolist() for name, value in expected.items()
    }
    assert all(torch.equal(value.cpu(), expected[name]) for name, value in model.state_dict().items())


def look_at_parts(storage, sparse, views):
    x, row, whole = views
    row.fill_(9)
    return (
        bytes(storage),
        sparse.to_dense().cpu(),
        x.tolist(),
        whole.untyped_storage().data_ptr() == row.untyped_storage().data_ptr(),
    )


def test_storages_layouts_and_views_of_one_storage_arrive(worker):
    x = torch.zeros(2, 3, device="npu")
    storage = torch.tensor([1, 258], dtype=torch.int16, device="npu").untyped_storage()
    sparse = torch.eye(3).to_sparse()
    got = worker.call(look_at_parts, storage, sparse.npu(), (x, x[1], x.view(-1)))
    assert isinstance(got, tuple), got
    assert got[0] == b"\x01\x00\x02\x01"
    assert torch.equal(got[1], torch.eye(3))
    assert got[2:] == ([[0, 0, 0], [9, 9, 9]], True)
    assert x.tolist() == [[0, 0, 0], [9, 9, 9]]


def test_later_writes_are_seen_on_both_sides(worker):
    x = torch.zeros(3, device="npu")
    worker.call(keep, "x", x)
    x.add_(1)
    torch.npu.synchronize()
    assert worker.call(value_of, "x") == [1, 1, 1]
    assert worker.call(fill, "x", 5) is None
    assert x.tolist() == [5, 5, 5]
    worker.call(drop, "x")


def same_storage(name, x):
    return KEPT[name].untyped_storage()._cdata == x.untyped_storage()._cdata


def test_a_storage_is_opened_once_per_process(worker):
    x = torch.zeros(3, device="npu")
    worker.call(keep, "x", x)
    assert worker.call(same_storage, "x", x[1:]) is True
    worker.call(drop, "x")
    address = x.data_ptr()
    del x
    assert address == torch.zeros(3, device="npu").data_ptr(), "a message that opened nothing keeps the memory"


@cached
@pytest.mark.parametrize("elements", [100, 3 * MIB], ids=["small", "large"])
def test_memory_stays_until_all_processes_have_released_it(worker, elements):
    gc.collect()
    torch.npu.ipc_collect()
    before = torch.npu.memory_allocated()
    x = torch.full((elements,), 7.0, device="npu")
    held = torch.npu.memory_allocated() - before
    worker.call(keep, "a", x)
    worker.call(keep, "b", x[1:])
    del x
    assert torch.npu.memory_allocated() == before + held
    torch.npu.empty_cache()
    others = [torch.full((elements,), float(value), device="npu") for value in range(5)]
    torch.npu.synchronize()
    assert set(worker.call(value_of, "a")) == {7}
    del others
    worker.call(drop, "a")
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before + held
    assert set(worker.call(value_of, "b")) == {7}
    worker.call(drop, "b")
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before


@cached
def test_memory_released_by_all_receivers_is_freed_at_once(worker):
    gc.collect()
    torch.npu.ipc_collect()
    before = torch.npu.memory_allocated()
    x = torch.ones(100, device="npu")
    worker.call(describe, x)
    worker.call(keep, "other", 0)  # the worker has released x by then
    del x
    assert torch.npu.memory_allocated() == before


def test_a_receiver_waits_for_pending_work_of_the_sender(worker):
    x = torch.zeros(1000, device="npu")
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream), HeldStream(stream):
        x.fill_(3)
        worker.ask(describe, x)
        assert not stream.query()
    assert_is(worker.answer(), x)


def current_stream_waits(x):
    return not torch.npu.current_stream(x.device).query()


def test_a_receiver_with_an_open_storage_waits_for_pending_work_of_the_sender(worker):
    x = torch.zeros(1000, device="npu")
    worker.call(keep, "x", x)
    stream = torch.npu.Stream()
    with torch.npu.stream(stream), HeldStream(stream):
        x.fill_(3)
        waits = worker.call(current_stream_waits, x)
    assert waits is True
    assert set(worker.call(value_of, "x")) == {3}
    worker.call(drop, "x")


def use_and_drop(name):
    x = KEPT.pop(name)
    libc, device = ctypes.CDLL(None), ctypes.CDLL(torch.npu.library_info()["path"])
    with torch.npu.stream(torch.npu.Stream()):
        stream = torch.npu.current_stream()
        device.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), libc.usleep, ctypes.c_void_p(100_000))
        y = x + 1
        x.record_stream(stream)
        del x
        return stream.query(), y.tolist()


def test_a_receiver_releases_memory_after_its_streams_have_finished(worker):
    worker.call(keep, "x", torch.ones(3, device="npu"))
    assert worker.call(use_and_drop, "x") == (True, [2, 2, 2])


def send_on(x):
    try:
        ForkingPickler.dumps(x)
    except RuntimeError as error:
        return str(error)


def grow(x):
    try:
        x.resize_(1000)
    except RuntimeError as error:
        return str(error)


def test_a_received_tensor_cannot_be_forwarded_or_resized(worker):
    x = torch.ones(3, device="npu")
    assert "Consider cloning before sending" in worker.call(send_on, x)
    assert "not resizable" in worker.call(grow, x)


def wait_for(event, x):
    event.wait()
    return (x + 1).tolist()


def test_the_repr_of_an_interprocess_event_says_so():
    event = torch.npu.Event(interprocess=True)
    assert repr(event) == repr(torch.npu.Event.from_ipc_handle("npu", event.ipc_handle())) == "<torch.npu.Event interprocess>"


def test_events_are_sent(worker):
    x = torch.zeros(3, device="npu")
    event = torch.npu.Event(interprocess=True)
    torch.npu.synchronize()
    stream = torch.npu.Stream()
    with torch.npu.stream(stream), HeldStream(stream):
        x.fill_(1)
        event.record()
        with torch.npu.stream(torch.npu.default_stream()):
            worker.ask(wait_for, event, x)
    assert worker.answer() == [2, 2, 2]
    with pytest.raises(ValueError, match="interprocess=True"):
        ForkingPickler.dumps(torch.npu.Event())


@two_devices
def test_every_device_has_memory_to_share(worker):
    x = torch.arange(3.0, device="npu:1")
    assert_is(worker.call(describe, x), x)


@cached
@pytest.mark.parametrize("is_waited_for", [True, False], ids=["joined", "zombie"])
def test_memory_is_released_when_its_receiver_dies(is_waited_for):
    worker = Worker()
    gc.collect()
    torch.npu.ipc_collect()
    before = torch.npu.memory_allocated()
    x = torch.ones(100, device="npu")
    worker.call(keep, "x", x)
    del x
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() > before
    os.kill(worker.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    if is_waited_for:
        worker.process.join()
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before
    worker.process.join()
