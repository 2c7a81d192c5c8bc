"""apex on several ranks: DistributedDataParallel, combine_ddp, the overflow flag of all ranks, and SyncBatchNorm."""

import contextlib
import io
from types import SimpleNamespace

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.modes import setting
from tests.distributed.ranks import Ranks

STEPS = 4
WORLD = 2


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(4, 6, generator=generator), torch.randn(4, 3, generator=generator)


def train(rank, level, parallel, overflow_on=None, **options):
    """Returns the parameters, the scale and the report after some steps. overflow_on: the rank whose second step overflows."""
    from apex import amp
    from apex.parallel import DistributedDataParallel as ApexDistributedDataParallel

    model = network().to(rank.device)
    if options.get("combine_ddp"):
        with torch.no_grad():
            model[0].weight += rank.rank
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with contextlib.redirect_stdout(io.StringIO()):
        model, optimizer = amp.initialize(model, optimizer, opt_level=level, dynamic_init_scale=1024.0, **options)
    if parallel == "torch":
        model = DistributedDataParallel(model, device_ids=[rank.device.index])
    if parallel == "apex":
        model = ApexDistributedDataParallel(model, delay_allreduce=True)
    for step in range(STEPS):
        x, target = (tensor.to(rank.device) for tensor in batch(step, rank.rank))
        loss = nn.functional.mse_loss(model(x).float(), target)
        loss = loss * (1e6 if step == 1 and overflow_on == rank.rank else 1)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        with contextlib.redirect_stdout(io.StringIO()):
            optimizer.step()
        optimizer.zero_grad()
    result = [param.detach().cpu() for param in amp.master_params(optimizer)]
    scale, report = amp._amp_state.loss_scalers[0].loss_scale(), str(amp.overflow_report())
    amp.uninitialize()
    return result, scale, report


def alone():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = [nn.functional.mse_loss(model(x), target) for x, target in (batch(step, rank) for rank in range(WORLD))]
        (sum(losses) / WORLD).backward()
        optimizer.step()
    return [param.detach() for param in model.parameters()]


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize(
    ("parallel", "options"),
    [
        ("torch", {}),
        ("torch", {"combine_grad": True}),
        ("apex", {}),
        (None, {"combine_grad": True, "combine_ddp": True, "ddp_replica_count": 3}),
    ],
)
def test_ranks_train_as_one_process(rank_sets, level, parallel, options):
    ranks = rank_sets.get(setting("hccl", WORLD))
    results = ranks.run(train_on, level, parallel, options)
    for params, _ in results[1:]:
        assert all(one.equal(other) for one, other in zip(params, results[0][0], strict=True))
    for got, expected in zip(results[0][0], alone(), strict=True):
        torch.testing.assert_close(got, expected, rtol=0.02, atol=2e-3)


def test_an_overflow_of_one_rank_skips_the_step_of_all():
    with Ranks(WORLD, INF_NAN_MODE_ENABLE="0", INF_NAN_MODE_FORCE_DISABLE="1") as ranks:
        results = ranks.run(__name__, "train_saturated")
    for first, second in zip(*results, strict=True):
        assert first["scale"] == second["scale"] == 512.0
        assert all(one.equal(other) for one, other in zip(first["params"], second["params"], strict=True))
        assert "flag is set" in first["report"] and "overflowed" in second["report"]


def train_saturated():
    """One rank of devices without inf. Without DistributedDataParallel both ranks have the same batches."""
    dist.init_process_group("hccl")
    results = []
    for level, combine in (("O1", False), ("O2", False), ("O2", True)):
        rank = SimpleNamespace(device=torch.device("npu", dist.get_rank()), rank=0)
        params, scale, report = train(rank, level, None, overflow_on=dist.get_rank() - 1, combine_grad=combine)
        results.append({"scale": scale, "params": params, "report": report})
    return results


def train_on(rank, level, parallel, options):
    return train(rank, level, parallel, **options)[:2]
