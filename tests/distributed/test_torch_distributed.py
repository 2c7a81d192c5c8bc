"""Functions of torch.distributed above the collectives, ways to make process groups, and launchers."""

import os
import re
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.nn import functional as differentiable

from tests.distributed.modes import setting
from tests.distributed.rank_processes import Setting, free_port


def objects(rank):
    """Every rank sends {"rank": r, ...}."""
    own = {"rank": rank.rank, "text": "x" * (1000 * rank.rank), "tensor": torch.arange(rank.rank + 1)}
    gathered = [None] * rank.world
    dist.all_gather_object(gathered, own)
    assert [each["rank"] for each in gathered] == list(range(rank.world))
    assert [len(each["text"]) for each in gathered] == [1000 * each for each in range(rank.world)]
    assert [each["tensor"].tolist() for each in gathered] == [list(range(each + 1)) for each in range(rank.world)]

    listed = [own, "second"] if rank.rank == 1 else [None, None]
    dist.broadcast_object_list(listed, src=1)
    assert (listed[0]["rank"], listed[1]) == (1, "second")

    gathered = [None] * rank.world if rank.rank == 0 else None
    dist.gather_object(own, gathered, dst=0)
    if rank.rank == 0:
        assert [each["rank"] for each in gathered] == list(range(rank.world))

    received = [None]
    dist.scatter_object_list(received, [f"for {each}" for each in range(rank.world)] if rank.rank == 0 else None, src=0)
    assert received == [f"for {rank.rank}"]

    listed = [own] if rank.rank == 0 else [None]
    if rank.rank == 0:
        dist.send_object_list(listed, dst=1)
    if rank.rank == 1:
        dist.recv_object_list(listed, src=0)
        assert listed[0]["rank"] == 0


@pytest.mark.parametrize("world", [2, 4])
def test_object_collectives(rank_sets, world):
    rank_sets.get(setting("hccl", world)).run(objects)


def npu_objects(rank):
    """A tensor on npu arrives on npu."""
    gathered = [None] * rank.world
    dist.all_gather_object(gathered, torch.full((2,), float(rank.rank), device=rank.device))
    assert [each.cpu().tolist() for each in gathered] == [[float(each)] * 2 for each in range(rank.world)]
    assert all(each.device.type == "npu" for each in gathered)


def test_objects_with_tensors_of_npu(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(npu_objects)


def functional_collectives(rank):
    group, world = dist.group.WORLD, rank.world
    x = torch.arange(8.0, device=rank.device) + rank.rank
    total = sum(torch.arange(8.0) + each for each in range(world))
    result = functional.all_reduce(x, "sum", group)
    assert torch.equal((result * 2).cpu(), total * 2)  # using it waits for it
    assert torch.equal(functional.all_reduce(x, "avg", group).cpu(), total / world)
    gathered = functional.all_gather_tensor(x, 0, group)
    assert torch.equal(gathered.cpu(), torch.cat([torch.arange(8.0) + each for each in range(world)]))
    part = functional.reduce_scatter_tensor(x, "sum", 0, group)
    assert torch.equal(part.cpu(), total.chunk(world)[rank.rank])
    assert torch.equal(functional.broadcast(x, 1, group).cpu(), torch.arange(8.0) + 1)
    exchanged = functional.all_to_all_single(x, None, None, group)
    expected = torch.cat([(torch.arange(8.0) + each).chunk(world)[rank.rank] for each in range(world)])
    assert torch.equal(exchanged.cpu(), expected)
    many = functional.all_reduce_coalesced([x, x * 2], "max", group)
    assert torch.equal(many[1].cpu(), (torch.arange(8.0) + world - 1) * 2)
    for one in functional.all_gather_into_tensor_coalesced([x, x * 2], group)[:1]:
        assert torch.equal(one.cpu(), gathered.cpu())
    for one in functional.reduce_scatter_tensor_coalesced([x, x], "sum", [0, 0], group):
        assert torch.equal(one.cpu(), part.cpu())
    permuted = functional.permute_tensor(x, [(each + 1) % world for each in range(world)], group)
    assert torch.equal(permuted.cpu(), torch.arange(8.0) + (rank.rank - 1) % world)
    second = functional.all_gather_tensor(x.view(2, 4), 1, group)
    assert torch.equal(second.cpu(), torch.cat([(torch.arange(8.0) + each).view(2, 4) for each in range(world)], 1))


@pytest.mark.parametrize("world", [2, 4])
def test_functional_collectives(rank_sets, world):
    rank_sets.get(setting("hccl", world)).run(functional_collectives)


def functional_gradients(rank):
    group = dist.group.WORLD
    x = torch.arange(4.0, device=rank.device).requires_grad_()
    (functional.all_gather_tensor_autograd(x, 0, group) * (rank.rank + 1)).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((4,), float(sum(range(1, rank.world + 1)))))
    x.grad = None
    (functional.reduce_scatter_tensor_autograd(x, "sum", 0, group) * (rank.rank + 1)).sum().backward()
    expected = torch.cat([torch.full((4 // rank.world,), each + 1.0) for each in range(rank.world)])
    assert torch.equal(x.grad.cpu(), expected)
    x.grad = None
    (functional.all_to_all_single_autograd(x, None, None, group) * (rank.rank + 1)).sum().backward()
    assert torch.equal(x.grad.cpu(), expected)


def test_gradients_of_functional_collectives(rank_sets):
    rank_sets.get(setting("hccl", 2)).run(functional_gradients)


def differentiable_functions(rank):
    """torch.distributed.nn: the gradient of each function is what autograd gives for the same formula in one process."""
    world = rank.world

    def check(function, formula):
        """function: of the input of the rank; formula: of the inputs of all ranks and the rank. Both give a number per rank."""
        own = torch.arange(1.0, 5.0).add(rank.rank).to(rank.device).requires_grad_()
        value = function(own)
        value.backward()
        everybody = [torch.arange(1.0, 5.0).add(each).requires_grad_() for each in range(world)]
        values = [formula(everybody, each) for each in range(world)]
        sum(values).backward()
        torch.testing.assert_close(value.detach().cpu(), values[rank.rank].detach())
        expected = everybody[rank.rank].grad
        torch.testing.assert_close(own.grad.cpu(), torch.zeros(4) if expected is None else expected)

    scale = rank.rank + 1
    check(lambda x: (differentiable.all_reduce(x) ** 2).sum() * scale, lambda xs, r: (sum(xs) ** 2).sum() * (r + 1))
    check(lambda x: (differentiable.broadcast(x, 0) ** 2).sum() * scale, lambda xs, r: (xs[0] ** 2).sum() * (r + 1))
    check(
        lambda x: (torch.cat(differentiable.all_gather(x)) ** 2).sum() * scale,
        lambda xs, r: (torch.cat(xs) ** 2).sum() * (r + 1),
    )

    def scattered(x):
        out = torch.empty(4 // world, device=x.device)
        return (differentiable.reduce_scatter(out, list(x.chunk(world))) ** 2).sum() * scale

    check(scattered, lambda xs, r: (sum(xs).chunk(world)[r] ** 2).sum() * (r + 1))

    def exchanged(x):
        out = [torch.empty(4 // world, device=x.device) for _ in range(world)]
        return (torch.cat(differentiable.all_to_all(out, list(x.chunk(world)))) ** 2).sum() * scale

    check(exchanged, lambda xs, r: (torch.cat([x.chunk(world)[r] for x in xs]) ** 2).sum() * (r + 1))

    def exchanged_single(x):
        return (differentiable.all_to_all_single(torch.empty(4, device=x.device), x) ** 2).sum() * scale

    check(exchanged_single, lambda xs, r: (torch.cat([x.chunk(world)[r] for x in xs]) ** 2).sum() * (r + 1))


@pytest.mark.parametrize("world", [2, 4])
def test_functions_of_torch_distributed_nn_and_their_gradients(rank_sets, world):
    rank_sets.get(setting("hccl", world)).run(differentiable_functions)


def mesh(rank):
    device = rank.device.type
    one = dist.init_device_mesh(device, (rank.world,))
    x = torch.ones(3, device=rank.device)
    dist.all_reduce(x, group=one.get_group())
    assert x.tolist() == [float(rank.world)] * 3
    two = dist.init_device_mesh(device, (2, 2), mesh_dim_names=("replicas", "shards"))
    assert two.mesh.tolist() == [[0, 1], [2, 3]]
    row, column = divmod(rank.rank, 2)
    assert (two.get_local_rank("replicas"), two.get_local_rank("shards")) == (row, column)
    for name, members in (("shards", [2 * row, 2 * row + 1]), ("replicas", [column, column + 2])):
        x = torch.full((3,), float(rank.rank), device=rank.device)
        dist.all_reduce(x, group=two[name].get_group())
        assert x.tolist() == [float(sum(members))] * 3


def test_device_mesh(rank_sets):
    rank_sets.get(setting("hccl", 4)).run(mesh)


def work_and_groups(rank):
    x = torch.ones(5, device=rank.device)
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    assert work.wait()
    assert future.wait()[0].tolist() == [float(rank.world)] * 5
    torch.npu.synchronize()
    assert work.is_completed()
    assert dist.get_backend() == "hccl"
    assert dist.get_backend_config() is not None
    chained = dist.all_reduce(x, async_op=True).get_future().then(lambda done: done.value()[0] + 1)
    assert chained.wait().tolist() == [rank.world**2 + 1.0] * 5
    dist.barrier()
    before = dist.group.WORLD._get_backend(rank.device)._get_sequence_number_for_group()
    dist.all_reduce(x)
    assert dist.group.WORLD._get_backend(rank.device)._get_sequence_number_for_group() == before + 1
    return before


def test_works_futures_and_sequence_numbers(rank_sets):
    assert len(set(rank_sets.get(setting("hccl", 2)).run(work_and_groups))) == 1


def barriers(rank, kind):
    """No rank leaves a barrier before all have entered it."""
    store = rank.store(kind)
    for step in range(3):
        if rank.rank == step % rank.world:
            store.set(f"entered {step}", "1")
            store.get(f"entered {step}")  # set() does not wait for the server
        getattr(dist, kind)()
        assert store.check([f"entered {step}"])


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", ["barrier", "monitored_barrier"])
def test_a_barrier_waits_for_all_ranks(rank_sets, kind, world):
    rank_sets.get(setting("hccl", world)).run(barriers, kind)


def samples(rank):
    """The samples of all ranks together are the whole set."""
    sampler = torch.utils.data.distributed.DistributedSampler(range(10), shuffle=True, seed=3)
    loader = torch.utils.data.DataLoader(torch.arange(10.0), batch_size=5, sampler=sampler)
    own = torch.cat([batch.to(rank.device) for batch in loader])
    everything = torch.empty(10, device=rank.device)
    dist.all_gather_into_tensor(everything, own)
    return sorted(everything.tolist())


def test_a_distributed_sampler_gives_each_sample_once(rank_sets):
    assert rank_sets.get(setting("hccl", 2)).run(samples) == [[float(number) for number in range(10)]] * 2


# Ways to make the default process group. The ranks have none at first.


def all_reduce_works(rank):
    x = torch.full((3,), rank.rank + 1.0, device=rank.device)
    dist.all_reduce(x)
    assert x.tolist() == [rank.world * (rank.world + 1) / 2] * 3


def make_group(rank, arguments, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank.rank), WORLD_SIZE=str(rank.world))
    torch.npu.set_device(rank.device)
    numbers = {"rank": rank.rank, "world_size": rank.world} if "init_method" in arguments else {}
    dist.init_process_group(**arguments, **numbers)
    all_reduce_works(rank)
    if "cpu:gloo" in str(arguments.get("backend")):
        host = torch.ones(2)
        dist.all_reduce(host)
        assert host.tolist() == [float(rank.world)] * 2
    dist.destroy_process_group()


WAYS = {
    "environment": {"backend": "hccl"},
    "ipv6": {"backend": "hccl", "init_method": "tcp://[::1]:{port}"},
    "tcp": {"backend": "hccl", "init_method": "tcp://127.0.0.1:{port}"},
    "no_backend": {},
    "both": {"backend": "cpu:gloo,npu:hccl"},
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_make_a_process_group(rank_sets, way):
    """One set of ranks makes and destroys a group in each way."""
    port = free_port()
    arguments = {name: value.format(port=port) for name, value in WAYS[way].items()}
    rank_sets.get(Setting("hccl", 2, join=False)).run(make_group, arguments, port)


def bound(rank, name):
    """device_id binds the group to its device, and new groups are split from it."""
    rank.join(name, device_id=rank.device)
    all_reduce_works(rank)
    part = dist.new_group([0, 1])
    x = torch.ones(2, device=rank.device)
    dist.all_reduce(x, group=part)
    assert x.tolist() == [2.0, 2.0]
    split = dist.split_group(split_ranks=[[0, 1]])
    dist.all_reduce(x, group=split)
    assert x.tolist() == [4.0, 4.0]
    dist.destroy_process_group()


def test_a_group_that_is_bound_to_a_device_splits(rank_sets):
    rank_sets.get(Setting("hccl", 2, join=False)).run(bound, "bound")


def again(rank):
    for number in range(5):
        rank.join(f"again {number}")
        all_reduce_works(rank)
        dist.destroy_process_group()


def test_groups_are_made_and_destroyed_many_times(rank_sets):
    rank_sets.get(Setting("hccl", 2, join=False)).run(again)


PROGRAM = """
import os, sys
import torch
from torch import distributed as dist

def main(rank, world, port=None):
    if port is not None:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1).npu(), device_ids=[rank])
    model(torch.full((2, 3), rank + 1.0, device="npu")).sum().backward()
    gradient = model.module.weight.grad.tolist()
    dist.destroy_process_group()
    assert gradient == [[3.0, 3.0, 3.0]], gradient
    print(f"rank {rank} of {world} is done")

if __name__ == "__main__":
    if "RANK" in os.environ:
        main(int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"]))
    else:
        torch.multiprocessing.spawn(main, (2, int(sys.argv[1])), nprocs=2)
"""


@pytest.mark.parametrize("launcher", ["torchrun", pytest.param("spawn", marks=pytest.mark.full)])
def test_launchers(tmp_path, launcher):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port", str(free_port()), str(script)]
    arguments = torchrun if launcher == "torchrun" else [str(script), str(free_port())]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"rank \d of 2 is done", done.stdout)) == ["rank 0 of 2 is done", "rank 1 of 2 is done"]


def test_data_parallel_warns_once_and_names_ddp(child):
    done = child(
        textwrap.dedent("""
        import torch, warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                model = torch.nn.DataParallel(torch.nn.Linear(2, 2).npu(), device_ids=[0, 1])
                model(torch.ones(4, 2).npu()).sum().backward()
        print(sum("DistributedDataParallel" in str(each.message) for each in caught))
        """)
    )
    assert done.stdout == "1\n", done.stdout + done.stderr
