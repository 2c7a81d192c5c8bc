"""DTensor and FSDP with random meshes and placements, empty shards, several streams, freed inputs, failing hooks and threads."""

import random
import threading

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from tests.distributed import small_models as small
from tests.distributed.modes import setting

MESHES = {2: [(2,), (1, 2), (2, 1)], 4: [(4,), (2, 2), (1, 4), (4, 1), (2, 1, 2)]}
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def drawn_placements(draw, mesh, dimensions):
    ways = [Replicate(), *(Shard(d) for d in range(dimensions))]
    return [draw.choice(ways) for _ in range(mesh.ndim)]


def redistributions(rank, seeds):
    """Redistributes a tensor at random; it must keep its value. Sizes may be 0 and are not multiples of the mesh. A tensor may
    have no dimension."""
    for seed in seeds:
        draw = random.Random(seed)
        mesh = init_device_mesh("npu", draw.choice(MESHES[rank.world]))
        shape = [draw.choice([0, 1, 2, 3, 5, 8]) for _ in range(draw.randrange(4))]
        value = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).mul(9).to(draw.choice(DTYPES))
        source, target, last = (drawn_placements(draw, mesh, len(shape)) for _ in range(3))
        where = f"seed {seed}: {value.dtype}{shape} on {mesh.shape}: {source} -> {target} -> {last}"
        moved = distribute_tensor(value.to(rank.device), mesh, source).redistribute(mesh, target)
        assert moved.placements == tuple(target) and list(moved.shape) == shape, where
        assert torch.equal(moved.full_tensor().cpu(), value), where
        assert torch.equal(moved.redistribute(mesh, last).full_tensor().cpu(), value), where
        if value.dtype == torch.float32:
            partial = [Partial() if draw.random() < 0.5 else Replicate() for _ in range(mesh.ndim)]
            total = DTensor.from_local(value.to(rank.device), mesh, partial, run_check=False)
            factor = torch.tensor([size for size, way in zip(mesh.shape, partial, strict=True) if way.is_partial()]).prod().item()
            found = total.redistribute(mesh, target).full_tensor().cpu()
            torch.testing.assert_close(found, value * factor, msg=lambda text, at=where, how=partial: f"{at}, {how}: {text}")


@pytest.mark.parametrize("world", [2, 4])
def test_random_redistributions_keep_values(rank_sets, world):
    rank_sets.get(setting("hccl", world)).run(redistributions, range(40))


@pytest.mark.full
@pytest.mark.parametrize("part", range(5))
def test_many_random_redistributions_keep_values(rank_sets, part):
    rank_sets.get(setting("hccl", 4)).run(redistributions, range(1000 + 200 * part, 1200 + 200 * part), limit=600)


def freed(rank):
    """The input of an asynchronous collective is freed, and its memory is filled again, before the collective ran."""
    group = dist.group.WORLD
    for size in (1, 1000, 300_000):
        for _ in range(5):
            x = torch.full((size,), float(rank.rank + 1), device=rank.device)
            total = functional.all_reduce(x, "sum", group)
            gathered = functional.all_gather_tensor(x, 0, group)
            del x
            junk = [torch.full((size,), 77.0, device=rank.device) for _ in range(4)]
            assert total.eq(sum(range(1, rank.world + 1))).all()
            assert [part.unique().item() for part in gathered.chunk(rank.world)] == [r + 1.0 for r in range(rank.world)]
            del junk


def other_streams(rank):
    """Two groups reduce a tensor of another stream at the same time. A third stream waits for them."""
    groups = [dist.new_group(list(range(rank.world))) for _ in range(2)]
    streams = [torch.npu.Stream() for _ in range(3)]
    for turn in range(10):
        works, results = [], []
        for stream, group in zip(streams, groups, strict=False):
            with torch.npu.stream(stream):
                x = torch.full((50_000,), float(rank.rank + turn), device=rank.device)
                torch.npu._sleep(100_000)
                x += 1
                works.append(dist.all_reduce(x, group=group, async_op=True))
                results.append(x)
        with torch.npu.stream(streams[2]):
            for work, x in zip(works, results, strict=True):
                work.wait()
                assert x.eq(sum(r + turn + 1 for r in range(rank.world))).all()


def failing_hook(rank):
    """An exception in a forward hook of one step of fully_shard; the next step trains as if nothing had happened."""
    model = small.blocks().to(rank.device)
    for block in model:
        fully_shard(block, mesh=init_device_mesh("npu", (rank.world,)))
    fully_shard(model, mesh=init_device_mesh("npu", (rank.world,)))
    optimizer = small.adam(model.parameters())
    fails = [True]

    def hook(*_):
        if fails:
            fails.clear()
            raise ArithmeticError("a hook of the program")

    model[1].up.register_forward_hook(hook)
    for step in range(small.STEPS):
        x, y = (small.part(each, rank) for each in small.batch(step))
        if step == 0:
            with pytest.raises(ArithmeticError, match="a hook of the program"):
                model(x)
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    found = {name: each.full_tensor().detach().cpu() for name, each in model.named_parameters()}
    small.same_parameters(found, small.reference()[1], rtol=1e-4, atol=1e-5)


def empty_shards(rank):
    """fully_shard of parameters with fewer rows than ranks, and of a 0-dimensional one."""

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.row = nn.Parameter(torch.randn(1, 5))
            self.three = nn.Parameter(torch.randn(3))

        def forward(self, x):
            return (x * self.row).sum(1, keepdim=True) * self.three

    def train(model, x, move=lambda each: each):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(move(x)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(4))
    expected = Odd()
    train(expected, x)
    model = fully_shard(Odd().to(rank.device), mesh=init_device_mesh("npu", (rank.world,)))
    train(model, x.chunk(rank.world)[rank.rank], lambda each: each.to(rank.device))
    found = {name: each.full_tensor().detach().cpu() for name, each in model.named_parameters()}
    small.same_parameters(found, expected, rtol=1e-4, atol=1e-5)


def threads(rank):
    """Two threads, each with its own group and its own stream. On one stream, the ranks would need the same order of both
    groups."""
    groups, found = [dist.new_group(list(range(rank.world))) for _ in range(2)], [None, None]

    def work(number):
        torch.npu.set_device(rank.device)
        with torch.npu.stream(torch.npu.Stream()):
            x = torch.full((1000,), float(number + 1), device=rank.device)
            for _ in range(20):
                dist.all_reduce(x, op=dist.ReduceOp.MAX, group=groups[number])
            found[number] = x.unique().tolist()

    started = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in started:
        each.start()
    for each in started:
        each.join()
    assert found == [[1.0], [2.0]]


@pytest.mark.parametrize("case", [freed, other_streams, failing_hook, empty_shards, threads], ids=lambda case: case.__name__)
def test_the_stack_under_attack(rank_sets, case):
    rank_sets.get(setting("hccl", 4 if case is empty_shards else 2)).run(case)


def batched_messages(rank):
    """The program can wait for a single message of a batch after the launch of the batch."""
    x = torch.full((10,), float(rank.rank), device=rank.device)
    group, peer = dist.group.WORLD._get_backend(rank.device), 1 - rank.rank
    y = torch.empty_like(x)
    group._start_coalescing()
    works = [group.send([x], peer, 0), group.recv([y], peer, 0)]
    with pytest.raises(RuntimeError, match="part of a batch; wait for it after endCoalescing"):
        works[0].wait()
    whole = group._end_coalescing()
    for work in works:
        work.wait()
    assert y.tolist() == [float(peer)] * 10
    whole.wait()


def test_the_program_can_wait_for_messages_of_a_batch(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(batched_messages)
