"""DistributedDataParallel trains as one process does on the whole batch. With gloo it trains on the CPU, to check the tests."""

import contextlib

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.modes import setting

STEPS = 3
BATCH = 4  # samples of a rank
MODES = ["hccl", pytest.param("gloo", marks=pytest.mark.full), pytest.param("tcp", marks=pytest.mark.full)]


class Network(nn.Module):
    """Two heads: `head` chooses the one that is used."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.heads = nn.ModuleList([nn.Linear(16, 3), nn.Linear(16, 3)])

    def forward(self, x, head=None):
        x = self.body(x)
        return self.heads[0](x) + self.heads[1](x) if head is None else self.heads[head](x)


def network():
    torch.manual_seed(0)
    return Network()


def batch(step, rank, samples=BATCH):
    """Inputs and targets of a rank."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(samples, 6, generator=generator), torch.randn(samples, 3, generator=generator)


def loss_of(model, device, step, rank, head=None):
    x, target = batch(step, rank)
    return nn.functional.mse_loss(model(x.to(device), head), target.to(device))


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train_alone(device, world, heads=None, active=None):
    """One process: the mean of the losses of all ranks. `active(step, rank)` says whether a rank has data."""
    model = network().to(device)
    optimizer = optimizer_of(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        head = heads[step] if heads else None
        losses = [loss_of(model, device, step, rank, head) for rank in range(world) if active is None or active(step, rank)]
        if not losses:
            continue
        (sum(losses) / world).backward()
        optimizer.step()
    return model


def train_together(rank, heads=None, hook=None, **options):
    model = network().to(rank.device)
    parallel = DistributedDataParallel(model, device_ids=None if rank.device.type == "cpu" else [rank.device.index], **options)
    if hook:
        parallel.register_comm_hook(*hook)
    optimizer = optimizer_of(parallel)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(parallel, rank.device, step, rank.rank, heads[step] if heads else None).backward()
        optimizer.step()
    return parallel.module


def assert_same_parameters(model, expected, **tolerance):
    for (name, one), other in zip(model.named_parameters(), expected.parameters(), strict=True):
        found, wanted = one.detach().cpu(), other.detach().cpu()
        torch.testing.assert_close(found, wanted, msg=lambda text, name=name: f"{name}: {text}", **tolerance)


def compare(rank, options):
    assert_same_parameters(train_together(rank, **options), train_alone(rank.device, rank.world, options.get("heads")))


VARIANTS = {
    "default": {},
    "static_graph": {"static_graph": True},
    "bucket_views": {"gradient_as_bucket_view": True},
    "small_buckets": {"bucket_cap_mb": 0.0001},
    "unused": {"find_unused_parameters": True, "heads": (0, 1, 0)},
    "unused_and_views": {"find_unused_parameters": True, "gradient_as_bucket_view": True, "heads": (1, 1, 0)},
    "static_and_views": {"static_graph": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.0001},
    "no_broadcast": {"broadcast_buffers": False, "init_sync": False},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_training_equals_that_of_one_process(rank_sets, variant, mode):
    rank_sets.get(setting(mode, 2)).run(compare, VARIANTS[variant])


@pytest.mark.parametrize("world", [4, pytest.param(3, marks=pytest.mark.full), pytest.param(8, marks=pytest.mark.full)])
def test_training_with_more_ranks(rank_sets, world):
    rank_sets.get(setting("hccl", world)).run(compare, {"bucket_cap_mb": 0.0001})


def different_heads(rank):
    """Each rank uses another head, so that each head is unused on one rank."""
    model = network().to(rank.device)
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    alone = network().to(rank.device)
    loss_of(parallel, rank.device, 0, rank.rank, rank.rank).backward()
    (sum(loss_of(alone, rank.device, 0, each, each) for each in range(rank.world)) / rank.world).backward()
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("mode", MODES)
def test_a_parameter_that_some_ranks_do_not_use(rank_sets, mode):
    rank_sets.get(setting(mode, 2)).run(different_heads)


def first_parameters_differ(rank):
    """Rank 1 starts with other parameters and buffers: it takes those of rank 0."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(rank.device)
    for tensor in (*model.parameters(), model[1].running_mean):
        tensor.data.fill_(rank.rank + 1.0)
    parallel = DistributedDataParallel(model)
    parallel(torch.ones(2, 3, device=rank.device))
    return [tensor.detach().cpu().sum().item() for tensor in (model[0].weight, model[1].running_mean)]


def test_ranks_begin_with_the_parameters_and_buffers_of_rank_0(rank_sets):
    one, other = rank_sets.get(setting("hccl", 2)).run(first_parameters_differ)
    assert one == other
    assert one[0] == 12.0


def accumulate(rank):
    """Steps 0 and 1 are added up without communication, step 2 communicates."""
    model = network().to(rank.device)
    parallel = DistributedDataParallel(model)
    for step in range(STEPS):
        with parallel.no_sync() if step < STEPS - 1 else contextlib.nullcontext():
            loss_of(parallel, rank.device, step, rank.rank).backward()
        if step == 0:
            own = network().to(rank.device)
            loss_of(own, rank.device, step, rank.rank).backward()
            torch.testing.assert_close(model.body[0].weight.grad, own.body[0].weight.grad)
    alone = network().to(rank.device)
    for step in range(STEPS):
        (sum(loss_of(alone, rank.device, step, each) for each in range(rank.world)) / rank.world).backward()
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("mode", MODES)
def test_no_sync_accumulates_gradients_of_the_rank(rank_sets, mode):
    rank_sets.get(setting(mode, 2)).run(accumulate)


def active(step, rank):
    return step < STEPS - 1 + rank


def uneven(rank):
    """Rank 0 has one batch less than rank 1."""
    model = network().to(rank.device)
    parallel = DistributedDataParallel(model)
    optimizer = optimizer_of(parallel)
    with parallel.join():
        for step in range(STEPS):
            if active(step, rank.rank):
                optimizer.zero_grad()
                loss_of(parallel, rank.device, step, rank.rank).backward()
                optimizer.step()
    assert_same_parameters(model, train_alone(rank.device, rank.world, active=active)) if rank.rank == 1 else None
    return model.body[0].weight.detach().cpu().sum().item()


@pytest.mark.parametrize("mode", MODES)
def test_join_lets_ranks_have_different_numbers_of_batches(rank_sets, mode):
    one, other = rank_sets.get(setting(mode, 2)).run(uneven)
    assert one == other  # the rank that ended first gets the final parameters


def join_raises(rank):
    parallel = DistributedDataParallel(network().to(rank.device))
    with pytest.raises(RuntimeError, match=r"exhausted|inputs"), parallel.join(throw_on_early_termination=True):
        for step in range(STEPS):
            if active(step, rank.rank):
                loss_of(parallel, rank.device, step, rank.rank).backward()


def test_join_raises_on_every_rank_if_asked(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(join_raises)


def double_hook(state, bucket):
    """A communication hook of a user: twice the average."""
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0] * (2 / state))


def hooks(rank, name):
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if "compress" in name else {}
    expected = train_alone(rank.device, rank.world)
    if name == "allreduce":
        hook = (None, default_hooks.allreduce_hook)
    elif name == "fp16_compress":
        hook = (None, default_hooks.fp16_compress_hook)
    elif name == "bf16_compress":
        hook = (None, default_hooks.bf16_compress_hook)
    elif name == "wrapped_compress":
        hook = (None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
    model = train_together(rank, hook=hook)
    assert_same_parameters(model, expected, **tolerance)


@pytest.mark.parametrize("name", ["allreduce", "fp16_compress", "bf16_compress", "wrapped_compress"])
@pytest.mark.parametrize("mode", MODES)
def test_communication_hooks_of_torch(rank_sets, mode, name):
    if (mode, name) == ("gloo", "bf16_compress"):
        pytest.skip("torch refuses this hook for gloo")
    rank_sets.get(setting(mode, 2)).run(hooks, name)


def own_hook(rank):
    gradients = []
    for hook in (None, double_hook):
        parallel = DistributedDataParallel(network().to(rank.device))
        if hook:
            parallel.register_comm_hook(rank.world, hook)
        loss_of(parallel, rank.device, 0, rank.rank).backward()
        gradients.append([parameter.grad for parameter in parallel.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(other, 2 * one)


@pytest.mark.parametrize("mode", MODES)
def test_a_communication_hook_with_a_future(rank_sets, mode):
    rank_sets.get(setting(mode, 2)).run(own_hook)


def power_sgd(rank):
    """A low rank of the whole matrix loses nothing."""
    state = powerSGD_hook.PowerSGDState(dist.group.WORLD, matrix_approximation_rank=16, start_powerSGD_iter=2)
    model = train_together(rank, hook=(state, powerSGD_hook.powerSGD_hook))
    return [parameter.detach().cpu().sum().item() for parameter in model.parameters()]


def test_power_sgd_keeps_ranks_equal(rank_sets):
    one, other = rank_sets.get(setting("hccl", 2)).run(power_sgd)
    assert one == other


def half_precision(rank):
    """Autocast and a gradient scaler."""
    model = network().to(rank.device)
    parallel = DistributedDataParallel(model)
    optimizer = optimizer_of(parallel)
    scaler = torch.amp.GradScaler(rank.device.type, init_scale=256.0)
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(rank.device.type, dtype=torch.float16):
            loss = loss_of(parallel, rank.device, step, rank.rank)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert_same_parameters(model, train_alone(rank.device, rank.world), rtol=2e-2, atol=2e-2)


def test_autocast_and_gradient_scaler(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(half_precision)


def samples_of(rank):
    return BATCH + 3 * rank


def synchronized(rank, dims, dtype):
    """SyncBatchNorm on uneven parts of a batch against BatchNorm on the whole batch."""
    shape = (5, *([4] * dims))
    whole = torch.randn(sum(samples_of(each) for each in range(rank.world)), *shape, generator=torch.Generator().manual_seed(1))
    first = sum(samples_of(each) for each in range(rank.rank))
    part = slice(first, first + samples_of(rank.rank))
    kind = {0: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dims]
    alone = kind(5).to(rank.device)
    together = nn.SyncBatchNorm.convert_sync_batchnorm(kind(5)).to(rank.device)
    assert isinstance(together, nn.SyncBatchNorm)
    weights = torch.linspace(-1, 2, whole.numel()).view(whole.shape)
    x = whole[part].to(rank.device, dtype).requires_grad_()
    y = whole.to(rank.device, dtype).requires_grad_()
    for _ in range(2):
        found, expected = together(x), alone(y)
        (found * weights[part].to(rank.device)).sum().backward()
        (expected * weights.to(rank.device)).sum().backward()
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 5e-2, "atol": 5e-2}
    torch.testing.assert_close(found, expected[part], **tolerance)
    torch.testing.assert_close(x.grad, y.grad[part], **tolerance)
    torch.testing.assert_close(together.running_mean, alone.running_mean)
    torch.testing.assert_close(together.running_var, alone.running_var)
    for name in ("weight", "bias"):
        gradient = getattr(together, name).grad
        dist.all_reduce(gradient)
        torch.testing.assert_close(gradient, getattr(alone, name).grad, **tolerance)
    together.eval(), alone.eval()
    torch.testing.assert_close(together(x), alone(y)[part], **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("dims", [0, 2, 3])
def test_sync_batch_norm_equals_batch_norm_on_the_whole_batch(rank_sets, dims, dtype):
    rank_sets.get(setting("hccl", 2)).run(synchronized, dims, dtype)


def network_with_batch_norm():
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


def sync_batch_norm_in_ddp(rank):
    alone = network_with_batch_norm().to(rank.device)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(network_with_batch_norm()).to(rank.device)
    parallel = DistributedDataParallel(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (alone, parallel)]
    for step in range(STEPS):
        whole = torch.randn(2 * rank.world, 2, 6, 6, generator=torch.Generator().manual_seed(step)).to(rank.device)
        alone(whole).square().mean().backward()
        parallel(whole[2 * rank.rank : 2 * rank.rank + 2]).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert_same_parameters(model, alone, rtol=1e-3, atol=1e-4)


def test_sync_batch_norm_in_ddp(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(sync_batch_norm_in_ddp)
