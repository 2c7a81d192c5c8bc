"""Distributed checkpoints: loaded by another number of ranks, damaged, and for another model."""

import re

import pytest
import torch
from torch import distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.distributed import small_models as small
from tests.distributed.modes import setting


def sharded(rank, seed):
    return fully_shard(small.blocks(seed=seed).to(rank.device), mesh=init_device_mesh("npu", (rank.world,)))


def save(rank, folder, is_async):
    state = {"model": sharded(rank, 0).state_dict(), "step": 7}
    if is_async:
        both = dist.new_group(backend="gloo")
        done = dcp.async_save(state, checkpoint_id=folder, process_group=both)
        with torch.no_grad():
            torch._foreach_zero_([each.to_local() for each in state["model"].values()])  # the checkpoint already has its copy
        done.result()
    else:
        dcp.save(state, checkpoint_id=folder)


def load(rank, folder):
    model = sharded(rank, 1)
    state = {"model": model.state_dict(), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    assert state["step"] == 7
    found = {name: each.full_tensor().detach().cpu() for name, each in model.named_parameters()}
    small.same_parameters(found, small.blocks(seed=0), rtol=0, atol=0)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("writers", "readers"), [(2, 4), (4, 2)])
def test_another_number_of_ranks_loads_a_checkpoint(rank_sets, tmp_path, writers, readers, is_async):
    rank_sets.get(setting("hccl", writers)).run(save, str(tmp_path), is_async)
    rank_sets.get(setting("hccl", readers)).run(load, str(tmp_path))


def refused(rank, folder, seed, width):
    """Loads damaged files, or loads into a model of another width. Returns the line with the reason of the failure."""
    model = fully_shard(small.blocks(seed=seed).to(rank.device), mesh=init_device_mesh("npu", (rank.world,)))
    if width:
        model = fully_shard(torch.nn.Sequential(small.Block(width)).to(rank.device), mesh=init_device_mesh("npu", (rank.world,)))
    with pytest.raises(
        (dcp.api.CheckpointException, RuntimeError)
    ) as caught:  # CheckpointException is not derived from Exception
        dcp.load({"model": model.state_dict()}, checkpoint_id=folder)
    errors = getattr(caught.value, "failures", None)
    if not errors:
        return str(caught.value)
    return next(str(error) for error, _ in errors.values())


DAMAGES = {
    "truncated": "failed finding central directory|corrupted|unexpected",
    "missing": "No such file or directory: '.*distcp'",
    "no_metadata": r"\.metadata",
    "another_width": "Size mismatch between saved",
    "foreign": "Missing key in checkpoint state_dict: model",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_checkpoint_is_refused_on_every_rank(rank_sets, tmp_path, damage):
    ranks = rank_sets.get(setting("hccl", 2))
    ranks.run(save_other if damage == "foreign" else save, str(tmp_path), False)
    shard = sorted(tmp_path.glob("*.distcp"))[0]
    if damage == "truncated":
        shard.write_bytes(shard.read_bytes()[:100])
    elif damage == "missing":
        shard.unlink()
    elif damage == "no_metadata":
        (tmp_path / ".metadata").unlink()
    for text in ranks.run(refused, str(tmp_path), 1, 16 if damage == "another_width" else 0):
        assert re.search(DAMAGES[damage], text), text
    ranks.run(small_group_works)


def save_other(rank, folder, _):
    dcp.save({"other": torch.full((3,), float(rank.rank), device=rank.device)}, checkpoint_id=folder)


def small_group_works(rank):
    x = torch.ones(2, device=rank.device)
    dist.all_reduce(x)
    assert x.tolist() == [float(rank.world)] * 2


def misfit(rank):
    with pytest.raises(RuntimeError, match=r"(?i)mesh|world size|ranks") as caught:
        init_device_mesh("npu", (rank.world + 1,))
    return str(caught.value)


def test_a_mesh_that_does_not_fit_is_refused(rank_sets):
    ranks = rank_sets.get(setting("hccl", 2))
    for text in ranks.run(misfit):
        assert "3" in text and "2" in text, text
    ranks.run(small_group_works)
