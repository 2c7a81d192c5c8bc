"""DTensor, tensor parallel plans, context parallel and pipelines give the same results as one process."""

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    SplitPoint,
)
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import _attention as ring
from torch.distributed.tensor.experimental import local_map
from torch.distributed.tensor.experimental._context_parallel._load_balancer import _create_default_load_balancer
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch_npu.distributed.pipelining import pipeline
from torch_npu.distributed.tensor.experimental import context_parallel

from tests.distributed import small_models as small
from tests.distributed.modes import setting

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def placements(rank):
    """Every pair of placements: a tensor keeps its value, and its shards are the chunks of the whole."""
    mesh = init_device_mesh("npu", (rank.world,))
    value = torch.arange(7.0 * 6).view(7, 6)  # 7 is not a multiple of the number of ranks
    ways = [[Replicate()], [Shard(0)], [Shard(1)]]
    for source in ways:
        for target in ways:
            moved = distribute_tensor(value.to(rank.device), mesh, source).redistribute(mesh, target)
            assert moved.placements == tuple(target)
            assert torch.equal(moved.full_tensor().cpu(), value)
    partial = DTensor.from_local(value.to(rank.device), mesh, [Partial()])
    for target in ways:
        assert torch.equal(partial.redistribute(mesh, target).full_tensor().cpu(), value * rank.world)


OPERATORS = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b.t(),
    "softmax": lambda a, b: torch.softmax(a, 1) + b,
    "mean": lambda a, b: a.mean(0) * b.sum(),
    "maximum": lambda a, b: a.amax(1) + b.amin(1),
    "layer_norm": lambda a, b: nn.functional.layer_norm(a, (a.shape[1],)) * b,
    "norm": lambda a, b: torch.linalg.vector_norm(a) * b,
    "transposed": lambda a, b: (a.t() @ b).relu(),
    "where": lambda a, b: torch.where(a > b, a, b * 2),
    "gelu": lambda a, b: nn.functional.gelu(a) * b.sigmoid(),
    "cat": lambda a, b: torch.cat([a, b], 1).cumsum(0),
    "view": lambda a, b: (a.view(2, -1, a.shape[1]) + b.view(2, -1, b.shape[1])).flatten(0, 1),
}


def operators(rank, name):
    """Values and gradients of an operator, for every pair of placements of its two operands."""
    mesh = init_device_mesh("npu", (rank.world,))
    torch.manual_seed(1)
    values = torch.randn(8, 12), torch.randn(8, 12)
    wanted = [each.clone().requires_grad_() for each in values]
    expected = OPERATORS[name](*wanted)
    expected.pow(2).sum().backward()
    for one in (Replicate(), Shard(0), Shard(1)):
        for other in (Replicate(), Shard(0), Shard(1)):
            parts = [distribute_tensor(each.to(rank.device), mesh, [way]) for each, way in zip(values, (one, other), strict=True)]
            parts = [each.detach().requires_grad_() for each in parts]
            try:
                found = OPERATORS[name](*parts)
            except RuntimeError as refused:  # torch refuses to move shards for a view
                assert name == "view" and "redistribut" in str(refused), refused
                continue
            found.pow(2).sum().backward()
            where = f"{name} of {one} and {other}"
            torch.testing.assert_close(found.full_tensor().cpu(), expected, msg=lambda text, at=where: f"{at}: {text}", **CLOSE)
            for each, value in zip(parts, wanted, strict=True):
                torch.testing.assert_close(each.grad.full_tensor().cpu(), value.grad, rtol=1e-4, atol=1e-4)


def every_operator(rank):
    placements(rank)
    for name in OPERATORS:
        operators(rank, name)


@pytest.mark.parametrize("world", [2, 4])
def test_dtensors_have_the_values_of_whole_tensors(rank_sets, world):
    rank_sets.get(setting("hccl", world)).run(every_operator)


def random(rank):
    """Shards are parts of one random tensor: no two ranks draw the same numbers."""
    mesh = init_device_mesh("npu", (rank.world,))
    torch.manual_seed(5)
    drawn = torch.distributed.tensor.randn(64, 8, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu()
    torch.manual_seed(5)
    again = torch.distributed.tensor.randn(64, 8, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu()
    assert torch.equal(drawn, again)
    assert len(set(drawn[:, 0].tolist())) == 64
    same = torch.distributed.tensor.rand(16, device_mesh=mesh, placements=[Replicate()])
    gathered = [torch.empty(16, device=rank.device) for _ in range(rank.world)]
    dist.all_gather(gathered, same.to_local())
    assert all(torch.equal(each, gathered[0]) for each in gathered)


def losses(rank):
    """Cross entropy of logits that are sharded over classes."""
    mesh = init_device_mesh("npu", (rank.world,))
    torch.manual_seed(2)
    logits, target = torch.randn(6, 8), torch.randint(0, 8, (6,))
    whole = logits.clone().requires_grad_()
    expected = nn.functional.cross_entropy(whole, target)
    expected.backward()
    shards = distribute_tensor(logits.to(rank.device), mesh, [Shard(1)]).requires_grad_()
    with loss_parallel():
        found = nn.functional.cross_entropy(shards, target.to(rank.device))
        found.backward()
    torch.testing.assert_close(found.full_tensor().detach().cpu(), expected.detach(), **CLOSE)
    torch.testing.assert_close(shards.grad.full_tensor().cpu(), whole.grad, **CLOSE)


def mapped(rank):
    mesh = init_device_mesh("npu", (rank.world,))
    product = local_map(
        lambda a, b: a @ b, out_placements=[Shard(0)], in_placements=([Shard(0)], [Replicate()]), device_mesh=mesh
    )
    a, b = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)), torch.eye(4) * 3
    found = product(*(distribute_tensor(x.to(rank.device), mesh, [w]) for x, w in ((a, Shard(0)), (b, Replicate()))))
    torch.testing.assert_close(found.full_tensor().cpu(), a @ b)


@pytest.mark.parametrize("case", [random, losses, mapped], ids=lambda case: case.__name__)
def test_dtensor_functions(rank_sets, case):
    rank_sets.get(setting("hccl", 2)).run(case)


# Tensor parallel plans.


def plan(model, mesh, sequence):
    for block in model:
        if sequence:
            styles = {
                "norm": SequenceParallel(sequence_dim=0),
                "up": ColwiseParallel(input_layouts=Shard(0)),
                "down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
            }
            parallelize_module(block, mesh, styles)
        else:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def whole(parameter):
    return (parameter.full_tensor() if isinstance(parameter, DTensor) else parameter).detach().cpu()


def tensor_parallel(rank, sequence):
    mesh = init_device_mesh("npu", (rank.world,))
    model = small.blocks().to(rank.device)
    plan(model, mesh, sequence)
    # The foreach optimizers refuse a list of tensors and DTensors, and the plain plan leaves `norm` as it is.
    optimizer, found = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False), []
    for step in range(small.STEPS):
        x, y = (each.to(rank.device) for each in small.batch(step))
        if sequence:
            x = distribute_tensor(x, mesh, [Shard(0)])
        y_found = model(x)
        y_found = y_found.full_tensor() if isinstance(y_found, DTensor) else y_found
        loss = nn.functional.mse_loss(y_found, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    reference, trained = small.reference()
    torch.testing.assert_close(torch.tensor(found), torch.tensor(reference), **CLOSE)
    small.same_parameters({name: whole(each) for name, each in model.named_parameters()}, trained, **CLOSE)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("sequence", [False, True])
def test_tensor_parallel_plans_train_as_one_process(rank_sets, sequence, world):
    rank_sets.get(setting("hccl", world)).run(tensor_parallel, sequence)


def two_dimensions(rank):
    """fully_shard over one dimension of the mesh, tensor parallel over the other."""
    mesh = init_device_mesh("npu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = small.blocks().to(rank.device)
    plan(model, mesh["tensor"], False)
    for block in model:
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    optimizer, row = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False), mesh.get_local_rank("data")
    for step in range(small.STEPS):
        x, y = (each.chunk(2)[row].to(rank.device) for each in small.batch(step))
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    small.same_parameters({name: whole(each) for name, each in model.named_parameters()}, small.reference()[1], **CLOSE)


def test_tensor_parallel_and_fully_shard_on_one_mesh(rank_sets):
    rank_sets.get(setting("hccl", 4)).run(two_dimensions)


# Context parallel.


def attention(rank, is_causal, balanced, rotate):
    """Each rank has a part of the sequence. Outputs and gradients are those of the whole sequence."""
    mesh = init_device_mesh("npu", (rank.world,))
    torch.manual_seed(7)
    query, key, value = (torch.randn(2, 4, 16, 8) for _ in range(3))
    expected = [each.clone().requires_grad_() for each in (query, key, value)]
    out = nn.functional.scaled_dot_product_attention(*expected, is_causal=is_causal)
    out.pow(2).sum().backward()
    parts = [each.to(rank.device) for each in (query, key, value)]
    ring._cp_options.enable_load_balance = balanced
    ring.set_rotate_method(rotate)
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3):
        assert parts[0].size(2) == 16 // rank.world
        for each in parts:
            each.requires_grad_()
        found = nn.functional.scaled_dot_product_attention(*parts, is_causal=is_causal)
        found.pow(2).sum().backward()
        gradients = [each.grad.clone() for each in parts]
        for each in parts:
            each.requires_grad_(False)
    balancer = _create_default_load_balancer(16, rank.world, rank.device) if balanced else None
    whole_found = ring.context_parallel_unshard(mesh, [found.detach(), *gradients], [2] * 4, balancer)
    for each, wanted in zip(whole_found, [out.detach(), *(each.grad for each in expected)], strict=True):
        torch.testing.assert_close(each.cpu(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("rotate", ["alltoall", "allgather"])
@pytest.mark.parametrize(("is_causal", "balanced"), [(False, False), (True, False), (True, True)])
def test_context_parallel_attention(rank_sets, is_causal, balanced, rotate, world):
    rank_sets.get(setting("hccl", world)).run(attention, is_causal, balanced, rotate)


def refused_attention(rank):
    """torch's ring attention raises one sentence for a combination that it does not support."""
    mesh = init_device_mesh("npu", (rank.world,))
    parts = [torch.randn(2, 4, 16, 8, device=rank.device) for _ in range(3)]
    ring._cp_options.enable_load_balance = True
    with pytest.raises(RuntimeError, match="Load balancing requires `is_causal=True`"):  # noqa: SIM117
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3):
            nn.functional.scaled_dot_product_attention(*parts)


def test_context_parallel_refuses_load_balance_without_a_causal_mask(rank_sets):
    with rank_sets.fresh(setting("hccl", 2)) as ranks:  # torch leaves its replaced functions behind after an error
        ranks.run(refused_attention)


def heads(rank, is_causal):
    """Attention of DTensors whose heads or batches are sharded."""
    mesh = init_device_mesh("npu", (rank.world,))
    torch.manual_seed(7)
    whole = [torch.randn(4, 4, 6, 8).requires_grad_() for _ in range(3)]
    expected = nn.functional.scaled_dot_product_attention(*whole, is_causal=is_causal)
    expected.pow(2).sum().backward()
    for way in (Shard(0), Shard(1), Replicate()):
        parts = [distribute_tensor(each.detach().to(rank.device), mesh, [way]).requires_grad_() for each in whole]
        found = nn.functional.scaled_dot_product_attention(*parts, is_causal=is_causal)
        assert found.placements == (way,)
        found.pow(2).sum().backward()
        torch.testing.assert_close(found.full_tensor().detach().cpu(), expected.detach(), **CLOSE)
        for each, wanted in zip(parts, whole, strict=True):
            torch.testing.assert_close(each.grad.full_tensor().cpu(), wanted.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_dtensors(rank_sets, is_causal):
    rank_sets.get(setting("hccl", 2)).run(heads, is_causal)


# Pipelines.


def mse(found, wanted):
    return nn.functional.mse_loss(found, wanted)


def piped(rank, kind):
    """Two or four stages, or two stages per rank, with four micro batches."""
    per_rank = 2 if kind == "interleaved" else 1
    count = per_rank * rank.world
    depth = count
    reference, trained = small.reference(depth)
    model = small.blocks(depth)
    stages = [
        PipelineStage(model[index].to(rank.device), index, count, rank.device) for index in range(rank.rank, count, rank.world)
    ]
    schedules = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}
    schedule = schedules[kind](stages if per_rank > 1 else stages[0], n_microbatches=4, loss_fn=mse)
    own = [each for stage in stages for each in stage.submod.parameters()]
    optimizer = small.adam(own)
    for step in range(small.STEPS):
        x, y = (each.to(rank.device) for each in small.batch(step))
        losses = []
        last = rank.rank == rank.world - 1
        schedule.step(*((x,) if rank.rank == 0 else ()), **({"target": y, "losses": losses} if last else {}))
        if last:
            torch.testing.assert_close(torch.stack(losses).mean().cpu(), torch.tensor(reference[step]), **CLOSE)
        optimizer.step()
        optimizer.zero_grad()
    for index in range(rank.rank, count, rank.world):
        small.same_parameters({n: p.detach().cpu() for n, p in model[index].named_parameters()}, trained[index], **CLOSE)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", ["gpipe", "1f1b", "interleaved"])
def test_pipelines_train_as_one_process(rank_sets, kind, world):
    rank_sets.get(setting("hccl", world)).run(piped, kind)


def traced(rank):
    """pipeline() cuts a model in two."""
    model = small.blocks(2)
    x, _ = small.batch(0)
    expected = model(x)
    cut = pipeline(model, mb_args=(x.chunk(2)[0],), split_spec={"1": SplitPoint.BEGINNING})
    stage = cut.build_stage(rank.rank, rank.device)
    schedule = ScheduleGPipe(stage, n_microbatches=2)
    found = schedule.step(*((x.to(rank.device),) if rank.rank == 0 else ()))
    if rank.rank == 1:
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), **CLOSE)


def test_a_model_is_cut_into_stages(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(traced)
