"""Sharded data parallel training: FSDP2 (fully_shard), FSDP1 and the ZeRO optimizer give the same parameters as one process."""

import copy
import functools
import itertools

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch_npu.distributed.fsdp import fully_shard as own_fully_shard

from tests.distributed import small_models as small
from tests.distributed.modes import setting

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
HALF = {"rtol": 5e-2, "atol": 5e-2}


def train(rank, model, optimizer, clip=None):
    """Trains with the rank's part of each batch. Returns the losses of whole batches."""
    losses = []
    for step in range(small.STEPS):
        x, y = (small.part(each, rank) for each in small.batch(step))
        loss = nn.functional.mse_loss(model(x).float(), y)
        loss.backward()
        if clip:
            clip(model)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(small.mean_over_ranks(loss, rank.world))
    return losses


def whole(model):
    return {name: each.full_tensor().detach().cpu() for name, each in model.named_parameters()}


def sharded(rank, **options):
    """The blocks, each a unit of fully_shard, on the device of the rank."""
    model = small.blocks().to(rank.device)
    for block in model:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def check(rank, model, losses, expected, tolerance=None):
    tolerance = tolerance or CLOSE
    reference, trained = expected
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(reference), **tolerance)
    small.same_parameters(whole(model), trained, **tolerance)


def plain(rank):
    model = sharded(rank, mesh=init_device_mesh("npu", (rank.world,)))
    assert all(isinstance(each, DTensor) and each.device.type == "npu" for each in model.parameters())
    check(rank, model, train(rank, model, small.adam(model.parameters())), small.reference())


def named_by_torch_npu(rank):
    model = small.blocks().to(rank.device)
    mesh = init_device_mesh("npu", (rank.world,))
    for unit in (*model, model):
        own_fully_shard(unit, mesh=mesh)
    check(rank, model, train(rank, model, small.adam(model.parameters())), small.reference())


def kept_whole(rank):
    """reshard_after_forward=False keeps the parameters between forward and backward."""
    model = sharded(rank, mesh=init_device_mesh("npu", (rank.world,)), reshard_after_forward=False)
    check(rank, model, train(rank, model, small.adam(model.parameters())), small.reference())


def prefetch(rank):
    """Each block gathers its neighbour's parameters ahead."""
    model = sharded(rank, mesh=init_device_mesh("npu", (rank.world,)))
    units = list(model)
    for one, other in itertools.pairwise(units):
        one.set_modules_to_forward_prefetch([other])
        other.set_modules_to_backward_prefetch([one])
    check(rank, model, train(rank, model, small.adam(model.parameters())), small.reference())


def clipped(rank):
    model = sharded(rank, mesh=init_device_mesh("npu", (rank.world,)))

    def clip(model):
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        assert norm.full_tensor().item() > 0.1

    check(rank, model, train(rank, model, small.adam(model.parameters()), clip), small.reference(clip=0.1))


def offloaded(rank):
    """Parameters, gradients and the optimizer are on the CPU; the products run on npu."""
    model = sharded(rank, mesh=init_device_mesh("npu", (rank.world,)), offload_policy=CPUOffloadPolicy())
    assert all(each.device.type == "cpu" for each in model.parameters())
    losses = train(rank, model, small.adam(model.parameters()))
    reference, trained = small.reference()
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(reference), **CLOSE)
    for name, each in trained.named_parameters():
        local = dict(model.named_parameters())[name].to_local()
        torch.testing.assert_close(local, each.detach().chunk(rank.world)[rank.rank], **CLOSE)


def mixed(rank):
    """bfloat16 parameters and float32 reductions, with the tolerance of bfloat16."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(rank, mesh=init_device_mesh("npu", (rank.world,)), mp_policy=policy)
    seen = []
    model[0].up.register_forward_hook(lambda module, inputs, output: seen.append((module.weight.dtype, output.dtype)))
    check(rank, model, train(rank, model, small.adam(model.parameters())), small.reference(), HALF)
    assert set(seen) == {(torch.bfloat16, torch.bfloat16)}
    assert all(each.dtype == torch.float32 for each in model.parameters())


def accumulated(rank):
    """Without gradient synchronisation, two backward passes add up to one."""
    model = sharded(rank, mesh=init_device_mesh("npu", (rank.world,)))
    optimizer = small.adam(model.parameters())
    for step in range(small.STEPS):
        x, y = (small.part(each, rank) for each in small.batch(step))
        for last, (a, b) in enumerate(zip(x.chunk(2), y.chunk(2), strict=True)):
            model.set_requires_gradient_sync(bool(last))
            (nn.functional.mse_loss(model(a), b) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    small.same_parameters(whole(model), small.reference()[1], **CLOSE)


FULLY_SHARD = [plain, named_by_torch_npu, kept_whole, prefetch, clipped, offloaded, mixed, accumulated]


@pytest.mark.parametrize("case", FULLY_SHARD, ids=lambda case: case.__name__)
def test_fully_shard_trains_as_one_process(rank_sets, case):
    rank_sets.get(setting("hccl", 2)).run(case)


def hybrid(rank):
    """Shards over two ranks, replicas over the other two."""
    mesh = init_device_mesh("npu", (2, 2), mesh_dim_names=("replicas", "shards"))
    model = sharded(rank, mesh=mesh)
    check(rank, model, train(rank, model, small.adam(model.parameters())), small.reference())


@pytest.mark.parametrize("case", [plain, hybrid], ids=lambda case: case.__name__)
def test_fully_shard_trains_as_one_process_on_four_ranks(rank_sets, case):
    rank_sets.get(setting("hccl", 4)).run(case)


# FSDP1.


def summoned(model):
    with FullyShardedDataParallel.summon_full_params(model):
        return {name.replace("_fsdp_wrapped_module.", ""): each.detach().cpu().clone() for name, each in model.named_parameters()}


def wrapped(rank, strategy, tolerance=None, **options):
    model = FullyShardedDataParallel(
        small.blocks(),
        device_id=rank.device,
        sharding_strategy=strategy,
        auto_wrap_policy=ModuleWrapPolicy({small.Block}),
        use_orig_params=True,
        **options,
    )
    losses = train(rank, model, small.adam(model.parameters()))
    tolerance = tolerance or CLOSE
    reference, trained = small.reference()
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(reference), **tolerance)
    small.same_parameters(summoned(model), trained, **tolerance)
    return model


def first_version(rank, case):
    if case == "mixed":
        half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
        wrapped(rank, ShardingStrategy.FULL_SHARD, HALF, mixed_precision=half)
    elif case == "offloaded":
        wrapped(rank, ShardingStrategy.FULL_SHARD, cpu_offload=CPUOffload(offload_params=True))
    else:
        wrapped(rank, ShardingStrategy[case])


@pytest.mark.parametrize("case", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "mixed", "offloaded"])
@pytest.mark.filterwarnings("ignore")
def test_fsdp1_trains_as_one_process(rank_sets, case):
    rank_sets.get(setting("hccl", 2)).run(first_version, case)


def copied(sharded):
    """Copies a ShardedTensor, or a tensor that every rank has, because the state shares the memory of the parameters."""
    return copy.deepcopy(sharded) if isinstance(sharded, ShardedTensor) else sharded.clone()


def state_dicts(rank):
    """The full state equals the state of one process. Sharded states can be loaded again."""
    model = wrapped(rank, ShardingStrategy.FULL_SHARD)
    full = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, full):
        state = model.state_dict()
    if rank.rank == 0:
        small.same_parameters(state, small.reference()[1], **CLOSE)
    else:
        assert not state
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        state = {name: copied(each) for name, each in model.state_dict().items()}
        before = summoned(model)
        with torch.no_grad():
            for each in model.parameters():
                each.zero_()
        model.load_state_dict(state)
    after = summoned(model)
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert any(each.abs().sum() > 0 for each in after.values())


def test_states_of_fsdp1(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(state_dicts)


# The ZeRO optimizer.


def zero(rank, overlap):
    model = nn.parallel.DistributedDataParallel(small.blocks().to(rank.device), device_ids=[rank.device.index])
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01, parameters_as_bucket_view=overlap
    )
    losses = train(rank, model, optimizer)
    reference, trained = small.reference()
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(reference), **CLOSE)
    small.same_parameters({name: each.detach().cpu() for name, each in model.module.named_parameters()}, trained, **CLOSE)
    own = sum(len(group["params"]) for group in optimizer.optim.param_groups)
    assert 0 < own < len(list(model.parameters()))  # each rank has only the state of its part
    optimizer.consolidate_state_dict(to=0)
    if rank.rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))
    dist.barrier()


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("views", [False, True])
def test_the_zero_optimizer_trains_as_one_process(rank_sets, views, world):
    rank_sets.get(setting("hccl", world)).run(functools.partial(zero, overlap=views))
