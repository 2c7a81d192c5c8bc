"""Communication runs beside computation: shown by what is done while a stream is held or a rank has not called, never by time."""

import time

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.modes import setting
from tests.held_stream import HeldStream

PATIENCE = 60  # seconds until a thing that must happen counts as missing


def happens(condition):
    """Whether the condition becomes true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def recorded():
    event = torch.npu.Event()
    event.record()
    return event


def connect(rank):
    """Connects the ranks: the first collective of a group does that, and waits for the peers on the host."""
    dist.all_reduce(torch.ones(1, device=rank.device))
    torch.npu.synchronize()


class Gate(torch.autograd.Function):
    """The identity. Its backward calls a function when the gradients of all later layers are known."""

    @staticmethod
    def forward(ctx, x, function):
        ctx.function = function
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.function()
        return gradient, None


class Network(nn.Module):
    """The second layer fills the first bucket of DDP, which takes 1 MiB at least."""

    def __init__(self, function):
        super().__init__()
        self.first, self.second = nn.Linear(64, 600), nn.Linear(600, 600)
        self.function = function

    def forward(self, x):
        return self.second(Gate.apply(self.first(x), self.function))


def backward_with_held_stream(rank):
    """The compute stream is held between the backward of the second and of the first layer."""
    works, seen, steps = [], [], []

    def hook(_, bucket):
        works.append(dist.all_reduce(bucket.buffer(), async_op=True))
        return works[-1].get_future().then(lambda done: done.value()[0] / rank.world)

    def between_layers():
        if len(steps) == 1:  # DDP has one bucket in the first step
            return
        assert works, "no bucket was sent before the backward of the first layer"
        with HeldStream():
            held = recorded()
            seen.append((len(works), happens(lambda: all(work.is_completed() for work in works)), held.query()))

    model = Network(between_layers).to(rank.device)
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.01)
    parallel.register_comm_hook(None, hook)
    for step in range(3):
        steps.append(step)
        works.clear()
        parallel(torch.full((4, 64), rank.rank + 1.0, device=rank.device)).sum().backward()
    assert len(works) > seen[-1][0], "every bucket was sent before the backward of the first layer"
    gradient = model.first.bias.grad.clone()
    dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
    torch.testing.assert_close(gradient, model.first.bias.grad)
    return seen


def test_a_bucket_of_gradients_is_reduced_while_backward_is_held(rank_sets):
    for seen in rank_sets.get(setting("hccl", 2)).run(backward_with_held_stream):
        for sent, reduced, held_stream_went_on in seen:
            assert sent > 0
            assert reduced, "the gradients of the second layer were not reduced while the compute stream was held"
            assert not held_stream_went_on


def late_peer(rank, name):
    """Rank 1 calls all_reduce after rank 0 has seen that everything else goes on."""
    store = rank.store(name)
    connect(rank)
    x = torch.ones(1000, device=rank.device)
    if rank.rank == 1:
        store.wait(["seen"])
        dist.all_reduce(x)
        return x.sum().item()
    y = torch.ones(1000, device=rank.device)
    torch.npu.synchronize()
    work = dist.all_reduce(x, async_op=True)
    y.mul_(3)
    computed = recorded()
    assert happens(computed.query), "a kernel of the compute stream waited for the collective"
    assert not work.is_completed()
    work.wait()  # the stream waits, the host does not
    z = x + 1
    after = recorded()
    assert not after.query()
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        beside = y + 1
        done = recorded()
    assert happens(done.query), "another stream waited for the collective"
    assert not after.query()
    store.set("seen", "1")
    assert beside.sum().item() == 4000
    assert z.sum().item() == 3000
    assert work.is_completed()
    return x.sum().item()


def test_kernels_and_the_host_go_on_while_a_peer_is_late(rank_sets):
    assert rank_sets.get(setting("hccl", 2)).run(late_peer, "late peer") == [2000.0, 2000.0]


def late_peer_of_synchronous_call(rank, name):
    """A call without async_op returns to the host before the peer has called."""
    store = rank.store(name)
    connect(rank)
    x = torch.ones(100_000, device=rank.device)
    if rank.rank == 1:
        store.wait(["returned"])
        dist.all_reduce(x)
        return x.sum().item()
    dist.all_reduce(x)
    assert not recorded().query()
    store.set("returned", "1")
    return x.sum().item()


def test_a_synchronous_call_does_not_hold_the_host(rank_sets):
    assert rank_sets.get(setting("hccl", 2)).run(late_peer_of_synchronous_call, "late peer, synchronous") == [2e5, 2e5]


def groups_side_by_side(rank, name):
    """A collective of one group waits for a peer; a collective of another group on the same ranks goes on."""
    store, other = rank.store(name), dist.new_group([0, 1])
    connect(rank)
    x, y = torch.ones(10, device=rank.device), torch.ones(10, device=rank.device)
    dist.all_reduce(y, group=other)
    torch.npu.synchronize()
    if rank.rank == 0:
        waiting = dist.all_reduce(x, async_op=True)
    going = dist.all_reduce(y, group=other, async_op=True)
    assert happens(going.is_completed), "a group waited for the other group"
    if rank.rank == 0:
        assert not waiting.is_completed()
        store.set("seen", "1")
        waiting.wait()
    else:
        store.wait(["seen"])
        dist.all_reduce(x)
    return x.sum().item(), y.sum().item()


def test_groups_do_not_wait_for_each_other(rank_sets):
    assert rank_sets.get(setting("hccl", 2)).run(groups_side_by_side, "groups side by side") == [(20.0, 40.0)] * 2


def late_kernel(rank):
    """A collective waits for the kernels of the stream that were launched before it, and for no later ones."""
    connect(rank)
    x = torch.zeros(1000, device=rank.device)
    torch.npu.synchronize()
    with HeldStream():
        x.fill_(rank.rank + 1.0)
        work = dist.all_reduce(x, async_op=True)
        time.sleep(0.01)
        assert not work.is_completed()
    work.wait()
    return x.sum().item()


def test_a_collective_waits_for_the_kernels_before_it(rank_sets):
    assert rank_sets.get(setting("hccl", 2)).run(late_kernel) == [3000.0, 3000.0]
