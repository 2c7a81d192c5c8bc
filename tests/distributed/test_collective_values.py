"""Values of reductions: ranks are combined in their order, with the same bits on all ranks, in all runs and on all ways."""

import pytest
import torch
from torch import distributed as dist

from tests.distributed import model
from tests.distributed.layouts import group
from tests.distributed.modes import setting
from tests.distributed.operations import reduce_op, same_bits

MODES = ["hccl", "tcp", pytest.param("staged", marks=pytest.mark.full)]
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.5, 65504.0, 3.0e38, 1.0e-40)


def random_values(rank, dtype, count):
    return (torch.randn(count, generator=torch.Generator().manual_seed(rank), dtype=torch.float64) * 100).to(dtype)


def special_values(rank, dtype, count):
    """Every pair of special values meets."""
    numbers = torch.arange(count)
    index = numbers % 10 if rank % 2 == 0 else numbers // 10 % 10
    return torch.tensor(SPECIAL, dtype=torch.float64)[index].to(dtype)


def integers(rank, dtype, count):
    """Values at both ends of the dtype, so that sums and products overflow."""
    limits = torch.iinfo(dtype)
    ends = torch.tensor([limits.min, limits.max, limits.max // 2, limits.min // 3, 1, 0], dtype=torch.int64)
    return ends[(torch.arange(count) * (rank + 2)) % 6].to(dtype)


def values(rank, layout, make, dtype, reduction, sizes):
    """All three reducing collectives give the bits of the model."""
    process_group, own, size = group(rank, layout)
    for count in sizes:
        everybody = [make(each, dtype, count) for each in range(size)]
        expected = model.combine(everybody, reduction)
        for _ in range(2):
            x = everybody[own].to(rank.device)
            dist.all_reduce(x, reduce_op(reduction), group=process_group)
            assert same_bits_but_nan(x.cpu(), expected), f"all_reduce, {count} elements: {differences(x.cpu(), expected)}"
        x = everybody[own].to(rank.device)
        dist.reduce(x, group_dst=size - 1, op=reduce_op(reduction), group=process_group)
        assert own != size - 1 or same_bits_but_nan(x.cpu(), expected), f"reduce, {count} elements"
        part = torch.empty(count // size, dtype=dtype, device=rank.device)
        whole = everybody[own][: count // size * size].to(rank.device)
        dist.reduce_scatter_tensor(part, whole, reduce_op(reduction), group=process_group)
        mine = expected[own * (count // size) : (own + 1) * (count // size)]
        assert same_bits_but_nan(part.cpu(), mine), f"reduce_scatter, {count} elements"


def same_bits_but_nan(one, other):
    """NaNs may have other bits: which operand's NaN is kept depends on the order of the operands of an instruction."""
    if not one.dtype.is_floating_point:
        return same_bits(one, other)
    nan = one.isnan()
    return torch.equal(nan, other.isnan()) and same_bits(one.masked_fill(nan, 0), other.masked_fill(nan, 0))


def differences(found, expected):
    where = torch.nonzero(found != expected).view(-1)[:5]
    return [(i, found[i].item(), expected[i].item()) for i in where.tolist()]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_sums_of_random_floats_are_those_in_the_order_of_the_ranks(rank_sets, mode, dtype):
    ranks = rank_sets.get(setting(mode, 2 if mode == "tcp" else 4))
    ranks.run(values, "world", random_values, dtype, "sum", (37, 5003, 60_000))


@pytest.mark.parametrize("layout", ["reversed", "stripes"])
def test_the_order_is_that_of_the_group(rank_sets, layout):
    rank_sets.get(setting("hccl", 4)).run(values, layout, random_values, torch.float32, "sum", (37, 20_000))


@pytest.mark.parametrize("reduction", ["sum", "product", "min", "max"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_infinities_nans_and_zeros(rank_sets, dtype, reduction):
    rank_sets.get(setting("hccl", 2)).run(values, "world", special_values, dtype, reduction, (100, 20_000))


@pytest.mark.parametrize("reduction", ["sum", "product", "min", "max"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_wrap_around(rank_sets, dtype, reduction):
    rank_sets.get(setting("hccl", 2)).run(values, "world", integers, dtype, reduction, (97, 20_000))


def averages(rank, dtype):
    """AVG divides the sum, PREMUL_SUM multiplies before it; both are equal on all ranks."""
    everybody = [random_values(each, dtype, 5003) for each in range(rank.world)]
    found = []
    for reduction in ("avg", "premul_sum"):
        x = everybody[rank.rank].to(rank.device)
        dist.all_reduce(x, reduce_op(reduction))
        rtol = 1e-2 if dtype.itemsize == 2 else 1e-5
        torch.testing.assert_close(x.cpu(), model.combine(everybody, reduction), rtol=rtol, atol=30 * rtol)
        found.append(x.cpu().view(torch.uint8).long().sum().item())
    return found


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_averages_and_scaled_sums(rank_sets, dtype):
    answers = rank_sets.get(setting("hccl", 4)).run(averages, dtype)
    assert all(answer == answers[0] for answer in answers)


def averages_of_complex_numbers(rank, dtype):
    """Both parts are divided, whatever the size of the tensor."""
    three = dist.new_group([0, 1, 2])
    for count in (1, 2, 37) if rank.rank < 3 else ():
        inputs = [
            [torch.complex(*random_values(10 * each + to, torch.float64, 2 * count).chunk(2)).to(dtype) for to in range(3)]
            for each in range(3)
        ]
        part = torch.empty(count, dtype=dtype, device=rank.device)
        dist.reduce_scatter(part, [x.to(rank.device) for x in inputs[rank.rank]], dist.ReduceOp.AVG, group=three)
        assert same_bits(part.cpu(), model.combine([theirs[rank.rank] for theirs in inputs], "avg")), count
    dist.destroy_process_group(three)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_averages_of_complex_numbers_on_three_ranks(rank_sets, dtype):
    rank_sets.get(setting("hccl", 4)).run(averages_of_complex_numbers, dtype)


def averages_of_integers(rank, dtype):
    """The sum does not fit into the dtype, but the average does."""
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.max, limits.min, limits.max - rank.rank], dtype=dtype, device=rank.device)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    lower = limits.max - sum(range(rank.world)) / rank.world
    assert x.tolist() == [limits.max, limits.min, int(lower)]
    part = torch.empty(1, dtype=dtype, device=rank.device)
    dist.reduce_scatter_tensor(part, torch.full((rank.world,), limits.max, dtype=dtype, device=rank.device), dist.ReduceOp.AVG)
    assert part.item() == limits.max


def averages_of_large_integers(rank):
    large = torch.tensor([2**64 - 2, 2**63 + 7, 5, 0], dtype=torch.uint64, device=rank.device)
    x = large if rank.rank == 0 else torch.zeros_like(large)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [(2**64 - 2) // rank.world, (2**63 + 7) // rank.world, 5 // rank.world, 0]


@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.full)])
def test_averages_of_unsigned_integers_of_64_bits(rank_sets, world):
    rank_sets.get(setting("hccl", world)).run(averages_of_large_integers)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_averages_of_integers_do_not_wrap_around(rank_sets, dtype):
    rank_sets.get(setting("hccl", 2)).run(averages_of_integers, dtype)


def shapes(rank):
    """Tensors of several dimensions, of none, and views of a larger tensor."""
    x = torch.arange(24.0, device=rank.device).view(2, 3, 4) + rank.rank
    dist.all_reduce(x)
    assert torch.equal(x.cpu(), torch.arange(24.0).view(2, 3, 4) * rank.world + sum(range(rank.world)))
    scalar = torch.tensor(float(rank.rank + 1), device=rank.device)
    dist.all_reduce(scalar)
    assert scalar.item() == rank.world * (rank.world + 1) / 2
    base = torch.zeros(6, 4, device=rank.device)
    dist.broadcast(base[2:4].fill_(rank.rank + 1.0), src=1)
    assert base.sum(1).tolist() == [0.0, 0.0, 8.0, 8.0, 0.0, 0.0]
    rows = torch.full((2, 3), float(rank.rank), device=rank.device)
    stacked = torch.empty(rank.world, 2, 3, device=rank.device)
    dist.all_gather_into_tensor(stacked, rows)
    assert stacked[:, 1, 2].tolist() == [float(each) for each in range(rank.world)]
    # Columns of a matrix: not contiguous. The operation copies them.
    matrix = torch.arange(12.0, device=rank.device).view(3, 4) + 100 * rank.rank
    outputs = [torch.empty(3, 2, device=rank.device) for _ in range(rank.world)]
    dist.all_gather(outputs, matrix[:, 1:3].contiguous())
    for each, output in enumerate(outputs):
        assert torch.equal(output.cpu(), torch.arange(12.0).view(3, 4)[:, 1:3] + 100 * each)


def test_shapes_and_views(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(shapes)


def channels_last(rank):
    x = torch.arange(120.0).view(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).to(rank.device)
    expected = x.cpu() * rank.world
    dist.all_reduce(x)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x.cpu(), expected)


def test_a_dense_tensor_in_channels_last_is_reduced(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(channels_last)


def captured(rank):
    """A graph with kernels and collectives replays with new inputs."""
    x = torch.ones(1000, device=rank.device)
    gathered = torch.empty(1000 * rank.world, device=rank.device)
    dist.all_reduce(x)  # makes the communicator
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    x.fill_(1.0)
    with torch.npu.graph(graph):
        y = x * 2
        dist.all_reduce(y)
        y.add_(rank.rank)
        dist.all_gather_into_tensor(gathered, y)
        z = gathered.sum()
    for step in range(4):
        x.fill_(step + rank.rank)
        graph.replay()
        total = 2 * sum(step + each for each in range(rank.world))
        assert z.item() == 1000 * sum(total + each for each in range(rank.world))


def test_collectives_in_a_captured_graph(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(captured)
