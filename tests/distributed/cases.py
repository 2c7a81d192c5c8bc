"""What a rank does in test_process_group.py. Each function runs on every rank, in the process group of init()."""

import datetime
import json
import os
import time

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch_npu import _C
from torch_npu.distributed import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven, reinit_process_group


def rank():
    return dist.get_rank()


def numbers(*shape, dtype=torch.float32):
    """1, 2, 3 ... on rank 0, 2, 4, 6 ... on rank 1, and so on."""
    count = torch.Size(shape).numel()
    return (torch.arange(1, count + 1, dtype=dtype) * (rank() + 1)).reshape(shape).npu()


def init(backend, *, bound=False, timeout=60):
    device = torch.device("npu", int(os.environ["RANK"])) if bound else None
    dist.init_process_group(backend, device_id=device, timeout=datetime.timedelta(seconds=timeout))
    return dist.get_backend(), dist.get_world_size(), dist.is_initialized()


def init_bound(backend):
    return init(backend, bound=True)


def init_short(backend, seconds):
    return init(backend, timeout=seconds)


def destroy():
    dist.destroy_process_group()
    return dist.is_initialized()


def reductions(dtype):
    size = dist.get_world_size()
    results = {}
    for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        tensor = numbers(5, dtype=torch.int64).to(dtype)
        try:
            dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
            results[op] = tensor.cpu()
        except TypeError as error:
            results[op] = str(error)
    inputs = torch.stack([(torch.arange(1, 6) * (each + 1)).to(dtype) for each in range(size)])
    return results, inputs


def premultiplied():
    tensor = numbers(3)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    return tensor.cpu()


def complex_and_bool():
    number = torch.full((2,), complex(1, rank()), device="npu")
    dist.all_reduce(number)
    flags = torch.tensor([rank() == 0, False, True]).npu()
    dist.all_reduce(flags)
    return number.cpu(), flags.cpu()


def moves():
    """The results of every collective that moves data, as lists."""
    size, own = dist.get_world_size(), rank()
    results = {}
    tensor = numbers(4)
    dist.broadcast(tensor, 1)
    results["broadcast"] = tensor.tolist()
    tensor = numbers(4)
    dist.reduce(tensor, 1)
    results["reduce"] = tensor.tolist() if own == 1 else None
    parts = [torch.empty(2, 3, device="npu") for _ in range(size)]
    dist.all_gather(parts, numbers(2, 3))
    results["all_gather"] = [part.flatten().tolist() for part in parts]
    parts = [torch.empty(each + 1, device="npu") for each in range(size)]
    dist.all_gather(parts, numbers(own + 1))
    results["all_gather of uneven sizes"] = [part.tolist() for part in parts]
    output = torch.empty(2 * size, device="npu")
    dist.all_gather_into_tensor(output, numbers(2))
    results["all_gather_into_tensor"] = output.tolist()
    output = torch.empty(2, device="npu")
    dist.reduce_scatter_tensor(output, numbers(2 * size))
    results["reduce_scatter_tensor"] = output.tolist()
    output = torch.empty(own + 1, device="npu")
    dist.reduce_scatter(output, [numbers(each + 1) for each in range(size)])
    results["reduce_scatter of uneven sizes"] = output.tolist()
    gathered = [torch.empty(2, device="npu") for _ in range(size)] if own == 0 else None
    dist.gather(numbers(2), gathered, 0)
    results["gather"] = gathered and [part.tolist() for part in gathered]
    output = torch.empty(2, device="npu")
    dist.scatter(output, [numbers(2) + each for each in range(size)] if own == 1 else None, 1)
    results["scatter"] = output.tolist()
    output = torch.empty(size, device="npu")
    dist.all_to_all_single(output, numbers(size))
    results["all_to_all_single"] = output.tolist()
    outputs = [torch.empty(own + 1, device="npu") for _ in range(size)]
    dist.all_to_all(outputs, [numbers(each + 1) for each in range(size)])
    results["all_to_all of uneven sizes"] = [part.tolist() for part in outputs]
    output = torch.empty(sum(range(1, size + 1)), device="npu")
    all_gather_into_tensor_uneven(output, numbers(own + 1), list(range(1, size + 1)))
    results["all_gather_into_tensor_uneven"] = output.tolist()
    output = torch.empty(own + 1, device="npu")
    reduce_scatter_tensor_uneven(output, numbers(sum(range(1, size + 1))), list(range(1, size + 1)))
    results["reduce_scatter_tensor_uneven"] = output.tolist()
    return results


def messages():
    """Both ranks send first: no order of receiving is needed."""
    peer = 1 - rank()
    results = []
    received = torch.empty(50000, device="npu")
    works = [dist.isend(numbers(50000), peer), dist.irecv(received, peer)]
    for work in works:
        work.wait()
    results.append(received.sum().item())
    received = torch.empty(3, device="npu")
    operations = [dist.P2POp(dist.isend, numbers(3), peer), dist.P2POp(dist.irecv, received, peer)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    results.append(received.tolist())
    if rank() == 0:
        dist.send(numbers(2), 1)
    else:
        received = torch.empty(2, device="npu")
        dist.recv(received, 0)
        results.append(received.tolist())
    return results


def objects():
    size = dist.get_world_size()
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank()})
    lists = ["word", 7] if rank() == 0 else [None, None]
    dist.broadcast_object_list(lists, 0)
    return gathered, lists


def host_side():
    """Barriers, sub-groups, futures, and functional collectives."""
    dist.barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
    pair = dist.new_group([0, 1])
    tensor = torch.ones(3, device="npu")
    work = dist.all_reduce(tensor, group=pair, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] * 10)
    from_future = future.wait().tolist()
    works_done = work.wait() and (torch.npu.synchronize() or work.is_success())
    alone = [dist.new_group([each]) for each in range(dist.get_world_size())][rank()]
    single = torch.ones(2, device="npu")
    dist.all_reduce(single, group=alone)
    summed = functional.all_reduce(torch.ones(2, device="npu"), "sum", dist.group.WORLD)
    mesh = dist.init_device_mesh("npu", (dist.get_world_size(),))
    return from_future, works_done, single.tolist(), summed.tolist(), mesh.size()


def on_the_cpu_too():
    host, device = torch.ones(2), torch.ones(2, device="npu")
    dist.all_reduce(host)
    dist.all_reduce(device)
    return host.tolist(), device.tolist()


def _model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def _batches():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, 2 * dist.get_world_size(), 8, generator=generator)


def trained(settings):
    """Weights after three steps of DDP, and after the same steps on the CPU in this process with the whole batch."""
    hook = settings.pop("hook", None)
    parallel = DistributedDataParallel(_model().npu(), device_ids=[rank()], **settings)
    if hook:
        parallel.register_comm_hook(None, getattr(default_hooks, hook))
    alone = _model()
    for model, move in ((parallel, lambda batch: batch.chunk(dist.get_world_size())[rank()].npu()), (alone, lambda batch: batch)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in _batches():
            optimizer.zero_grad()
            model(move(batch)).square().mean().backward()
            optimizer.step()
    return [weight.detach().cpu() for weight in parallel.parameters()], [weight.detach() for weight in alone.parameters()]


def normalised():
    """The output and gradient of SyncBatchNorm, and of BatchNorm with the whole batch."""
    whole = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(2))
    part = whole.chunk(dist.get_world_size())[rank()].npu().requires_grad_()
    layer = torch.nn.SyncBatchNorm(3).npu()
    output = layer(part)
    (output * torch.arange(5.0, device="npu")).sum().backward()
    whole.requires_grad_()
    expected = torch.nn.BatchNorm1d(3)(whole)
    (expected * torch.arange(5.0)).sum().backward()
    pick = lambda tensor: tensor.detach().chunk(dist.get_world_size())[rank()]  # noqa: E731
    return output.detach().cpu(), pick(expected), part.grad.cpu(), pick(whole.grad)


def refused():
    """The texts of errors that are found before anything is sent."""
    texts = []
    for call in (
        lambda: dist.all_reduce(torch.ones(2)),
        lambda: dist.all_reduce(torch.ones(4, 4, device="npu").t()[1:]),
        lambda: dist.all_gather_into_tensor(torch.ones(3, device="npu"), torch.ones(2, device="npu")),
        lambda: dist.all_gather_into_tensor(torch.ones(4, device="npu").int(), torch.ones(2, device="npu")),
        lambda: dist.all_to_all_single(torch.ones(2, device="npu"), torch.ones(2, device="npu"), [1, 2], [1, 1]),
        lambda: dist.recv(torch.ones(2, device="npu")),
    ):
        with pytest.raises((ValueError, TypeError, RuntimeError, NotImplementedError)) as caught:
            call()
        texts.append(str(caught.value))
    dist.barrier()
    return texts


def mismatched():
    """Ranks call collectives of different sizes: the texts of the failure and of the next call."""
    tensor = torch.ones(2 + rank(), device="npu")
    with pytest.raises(RuntimeError) as failure:
        dist.all_reduce(tensor)
        tensor.cpu()
    after, deadline = "", time.monotonic() + 10
    while "cannot be used" not in after and time.monotonic() < deadline:
        time.sleep(0.05)
        with pytest.raises(RuntimeError) as later:
            dist.all_reduce(torch.ones(1, device="npu"))
            torch.npu.synchronize()
        after = str(later.value)
    reinit_process_group()
    tensor = torch.ones(2, device="npu")
    dist.all_reduce(tensor)
    return str(failure.value), after, tensor.tolist()


def late():
    """Rank 1 does not call: the text of the failure on rank 0, and the last entry of the flight recorder."""
    tensor = torch.ones(2, device="npu")
    dist.all_reduce(tensor)
    torch.npu.synchronize()
    if rank() == 1:
        time.sleep(6)
        return None
    start = time.monotonic()
    with pytest.raises(RuntimeError) as failure:
        dist.all_reduce(tensor)
        torch.npu.synchronize()
    entries = json.loads(_C._distributed_c10d._dump_hccl_trace_json())["entries"]
    return str(failure.value), time.monotonic() - start, entries[-1]


def late_messages():
    """Rank 1 does not send: the texts of the failures on rank 0, which receives a message, and then a batch with a message."""
    tensor, texts = torch.ones(2, device="npu"), []
    calls = [
        lambda: dist.recv(tensor, 1),
        lambda: dist.batch_isend_irecv([dist.P2POp(dist.irecv, tensor, 1)])[0].wait(),
    ]
    for call in calls:
        dist.all_reduce(tensor)
        torch.npu.synchronize()
        if rank() == 1:
            time.sleep(4)
        else:
            with pytest.raises(RuntimeError) as failure:
                call()
                torch.npu.synchronize()
            texts.append(str(failure.value))
        reinit_process_group()
    return texts


def late_again():
    """Rank 1 exceeds a timeout, and after a repair rank 0 does: the text of the second failure."""
    tensor = torch.ones(2, device="npu")
    dist.all_reduce(tensor)
    torch.npu.synchronize()
    if rank() == 0:
        time.sleep(6)  # longer than the timeout and the comparison of the ranks
    else:
        with pytest.raises(RuntimeError):
            dist.all_reduce(tensor)
            torch.npu.synchronize()
    reinit_process_group()
    dist.all_reduce(tensor)
    torch.npu.synchronize()
    if rank() == 1:
        time.sleep(6)
        return None
    with pytest.raises(RuntimeError) as failure:
        dist.all_reduce(tensor)
        torch.npu.synchronize()
    return str(failure.value)


def idle_seconds():
    """CPU seconds that the process uses in one second in which it does nothing, with a group that was used."""
    dist.all_reduce(torch.ones(1, device="npu"))
    torch.npu.synchronize()
    time.sleep(0.5)
    before = time.process_time()
    time.sleep(1)
    return time.process_time() - before
