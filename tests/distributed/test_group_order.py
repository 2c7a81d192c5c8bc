"""Groups that follow each other on one store, splits, replays beside calls, and tensors that cannot be exchanged as they are."""

import datetime
import re
import time

import pytest
import torch
from torch import distributed as dist
from torch_npu.distributed import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven, reinit_process_group

from tests.distributed.rank_processes import Setting

ROUNDS = 100
TWO = Setting("hccl", 2, join=False)
FOUR = Setting("hccl", 4, join=False)


def joined(rank, function, *arguments):
    """The result of the function within a process group of hccl."""
    rank.join(f"{function.__name__} {arguments}", device_id=rank.device)
    try:
        return function(rank, *arguments)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def capture(function):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        function()
    torch.npu.synchronize()
    return graph


def mixed(rank, kind):
    """The number of rounds in which a replay and another collective of the group exchanged their data."""
    a, b = (torch.zeros(8, device=rank.device) for _ in range(2))
    dist.all_reduce(a)
    torch.npu.synchronize()
    first = capture(lambda: dist.all_reduce(a))
    second = capture(lambda: dist.all_reduce(b))
    streams = torch.npu.Stream(), torch.npu.Stream()
    wrong = 0
    for i in range(ROUNDS):
        a.fill_(1.0 + i), b.fill_(1000.0 + i)
        torch.npu.synchronize()
        if kind == "call and replay":
            work = dist.all_reduce(b, async_op=True)
            first.replay()
            work.wait()
        else:
            for stream, graph in zip(streams, (first, second), strict=True):
                with torch.npu.stream(stream):
                    graph.replay()
        torch.npu.synchronize()
        wrong += a[0].item() != 2 * (1 + i) or b[0].item() != 2 * (1000 + i)
    return wrong


def destroyed_after_replay(rank):
    x = torch.ones(1 << 20, device=rank.device)
    dist.all_reduce(x.clone())
    torch.npu.synchronize()
    graph = capture(lambda: dist.all_reduce(x))
    x.fill_(1)
    if rank.rank == 1:
        time.sleep(0.3)
    for _ in range(4):
        graph.replay()
    dist.destroy_process_group()
    torch.npu.synchronize()
    return x[0].item()


def waited_late(rank, how):
    """The error of a wait for an unfinished collective after the program has left the group."""
    store = rank.store(f"launched {how}")
    rank.join(f"waited_late {how}", device_id=rank.device)
    x = torch.ones(4, device=rank.device)
    dist.all_reduce(x)
    torch.npu.synchronize()
    if rank.rank == 1:
        store.wait(["launched"])
        return dist.distributed_c10d._abort_process_group()
    work = dist.all_reduce(x, async_op=True)
    store.set("launched", "")
    if how == "destroyed":
        while not work.is_completed():
            time.sleep(0.01)
        dist.destroy_process_group()
    else:
        dist.distributed_c10d._abort_process_group()
    with pytest.raises(dist.DistBackendError) as caught:
        work.wait()
    return str(caught.value)


def rejoined(rank, how):
    """A collective of a new group, or of the repaired one, after one of the old group exceeded its timeout and was aborted."""
    store = rank.store(f"rejoined {how}")
    rank.join(f"before the timeout {how}", timeout=datetime.timedelta(seconds=3), device_id=rank.device)
    x = torch.ones(4, device=rank.device)
    dist.all_reduce(x)
    torch.npu.synchronize()
    if rank.rank == 0:
        work = dist.all_reduce(x, async_op=True)
        while how == "noticed" and not work.is_completed():
            time.sleep(0.01)
        with pytest.raises(dist.DistBackendError, match="timeout of 3000 ms"):
            if how in ("waited for by a stream", "repaired"):
                use_until_it_fails(work, x)
            work.wait(datetime.timedelta(seconds=60))
        store.set("over", "")
    else:
        store.wait(["over"])
    if how != "repaired":
        dist.destroy_process_group()
        return joined(rank, sums)
    reinit_process_group()
    found = sums(rank)
    dist.destroy_process_group()
    return found


def rejoined_at_once(rank):
    """A collective of a new group, after the program left the old one without a look at a collective that failed."""
    rank.join("before a mismatch", device_id=rank.device)
    x = torch.ones(4 - rank.rank, device=rank.device)
    dist.all_reduce(x, async_op=True).wait()
    x.add_(1)
    dist.destroy_process_group()
    return joined(rank, sums)


def use_until_it_fails(work, x):
    """The current stream waits, the host does not. The next collectives tell the program of the failure."""
    work.wait()
    x.add_(1)
    while True:
        time.sleep(0.01)
        dist.all_reduce(x, async_op=True)


def sums(rank):
    x = torch.ones(4, device=rank.device)
    dist.all_reduce(x)
    return x.tolist()


def splits(rank):
    """Splits by some ranks before splits by all: the ranks have made different numbers of groups."""
    x = torch.ones(4, device=rank.device)
    dist.all_reduce(x)
    dist.split_group(None, [[3, 0]])
    group = dist.split_group(None, [[0, 2], [1, 3]])
    y = torch.full((3,), rank.rank + 1.0, device=rank.device)
    dist.all_reduce(y, group=group)
    return y.tolist()


def splits_with_one_object(rank):
    """Splits with the same options: each group keeps its own name, which operators of the namespace npu find it by."""
    options, eye = dist.ProcessGroupHCCL.Options(), torch.eye(2, device=rank.device)
    groups = [dist.split_group(None, ranks, pg_options=options) for ranks in ([[0, 1], [2, 3]], [[0, 2], [1, 3]])]
    x = torch.full((2, 2), float(rank.rank), device=rank.device)
    names = [group._get_backend(rank.device).get_hccl_comm_name(0) for group in groups]
    return [torch.ops.npu.npu_mm_all_reduce_base(x, eye, name)[0, 0].item() for name in names]


def in_detail(rank):
    """As with TORCH_DISTRIBUTED_DEBUG=DETAIL: torch wraps the backend."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        return joined(rank, product)
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


def product(rank):
    backend = dist.group.WORLD._get_backend(rank.device)
    assert not isinstance(backend, dist.ProcessGroupHCCL)
    x = torch.full((2, 2), rank.rank + 1.0, device=rank.device)
    name = backend.get_hccl_comm_name(rank.rank)
    return torch.ops.npu.npu_mm_all_reduce_base(x, torch.eye(2, device=rank.device), name)[0].tolist()


def barriers(rank):
    """Seconds that rank 1 waits for rank 0 in the barrier of a second group on the same store."""
    store = rank.store("barriers", datetime.timedelta(seconds=60))
    for number in range(2):
        dist.init_process_group("hccl", store=store, rank=rank.rank, world_size=rank.world)
        if rank.rank == 0:
            time.sleep(0.5)
        begin = time.monotonic()
        dist.monitored_barrier()
        waited = time.monotonic() - begin
        store.set(f"{number} of {rank.rank}", "done")
        store.wait([f"{number} of {each}" for each in range(rank.world)])
        dist.destroy_process_group()
    return waited


def refusal(rank, kind):
    """The text of a refused call; afterwards the group is usable."""
    whole = torch.zeros(8, 2, 4, 4, device=rank.device)
    other = torch.zeros(8, 2, 4, 4, device=rank.device).to(memory_format=torch.channels_last)
    part, elsewhere = whole[:4], torch.device("npu", 1 - rank.device.index)
    calls = {
        "all_to_all_single in place": lambda: dist.all_to_all_single(whole, whole),
        "all_gather_into_tensor of an overlapping part": lambda: dist.all_gather_into_tensor(whole, whole[1:5]),
        "reduce_scatter_tensor into an overlapping part": lambda: dist.reduce_scatter_tensor(whole[1:5], whole),
        "coalesced gather into a small output": lambda: coalesced(dist.all_gather_into_tensor, whole, whole.clone()),
        "coalesced gather of an overlapping part": lambda: coalesced(dist.all_gather_into_tensor, whole, whole[1:5]),
        "coalesced scatter into an overlapping part": lambda: coalesced(dist.reduce_scatter_tensor, whole[1:5], whole),
        "all_gather_into_tensor_uneven of an overlapping part": lambda: all_gather_into_tensor_uneven(whole, whole[1:5]),
        "reduce_scatter_tensor_uneven into an overlapping part": lambda: reduce_scatter_tensor_uneven(whole[1:5], whole),
        "all_reduce_coalesced on two devices": lambda: dist.all_reduce_coalesced([whole, torch.ones(2, device=elsewhere)]),
        "all_to_all_single to channels_last": lambda: dist.all_to_all_single(other, whole),
        "all_gather_into_tensor from channels_last": lambda: dist.all_gather_into_tensor(whole, other[:4].clone()),
        "reduce_scatter_tensor of channels_last": lambda: dist.reduce_scatter_tensor(part.clone(), other),
        "scatter to channels_last": lambda: dist.scatter(other, [whole, whole] if rank.rank == 0 else None, 0),
        "reduce_scatter to channels_last": lambda: dist.reduce_scatter(other, [whole, whole]),
        "batch with a message that is not contiguous": lambda: dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, whole, 1 - rank.rank), dist.P2POp(dist.irecv, whole[:, ::2], 1 - rank.rank)]
        ),
    }
    with pytest.raises(ValueError) as caught:
        calls[kind]()
    x = torch.ones(2, device=rank.device)
    dist.all_reduce(x)
    assert x.tolist() == [rank.world] * 2
    message = torch.full((2,), 1.0 + rank.rank, device=rank.device)
    received = torch.zeros(2, device=rank.device)
    peer = 1 - rank.rank
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, message, peer), dist.P2POp(dist.irecv, received, peer)]):
        work.wait()
    assert received.tolist() == [2.0 - rank.rank] * 2
    return str(caught.value)


def coalesced(function, output, given):
    with dist._coalescing_manager(device=output.device):
        function(output, given)


def lists_in_one_buffer(rank):
    """Inputs that are outputs at the same time, in lists whose tensors are neighbours: ranks get what was there before."""
    world, me, size = rank.world, rank.rank, 20_000

    def parts(values):
        whole = torch.tensor([float(value) for value in values], device=rank.device).repeat_interleave(size)
        return list(whole.chunk(world))

    def values(tensors):
        return [tensor.unique().tolist() for tensor in tensors]

    listed = parts([me + 1] * world)
    dist.all_gather(listed, listed[0])
    assert values(listed) == [[r + 1.0] for r in range(world)]
    listed = parts([me + 1] * world)
    dist.gather(listed[1], listed if me == 0 else None, 0)
    assert me != 0 or values(listed) == [[r + 1.0] for r in range(world)]
    listed = parts([10 * me + r for r in range(world)])
    dist.all_to_all(listed, listed)
    assert values(listed) == [[10.0 * r + me] for r in range(world)]
    listed = parts(range(world))
    output = listed[1] if me == 0 else torch.empty(size, device=rank.device)
    dist.scatter(output, listed if me == 0 else None, 0)
    assert values([output]) == [[me]]
    listed = parts(range(world))
    output = listed[(me + 1) % world]
    dist.reduce_scatter(output, listed)
    assert values([output]) == [[me * world]]


def in_place(rank):
    """The parts of the own rank may be given in place."""
    whole = torch.zeros(4, device=rank.device)
    own = whole[2 * rank.rank : 2 * rank.rank + 2]
    own.fill_(rank.rank + 1)
    dist.all_gather_into_tensor(whole, own)
    gathered = whole.tolist()
    dist.reduce_scatter_tensor(own, whole)
    return gathered, own.tolist()


REFUSED = {
    "all_to_all_single in place": "overlap in memory",
    "all_gather_into_tensor of an overlapping part": "overlap in memory.*begins at element",
    "reduce_scatter_tensor into an overlapping part": "overlap in memory.*begins at element",
    "coalesced gather into a small output": "has 256 elements, but 'inputs'",
    "coalesced gather of an overlapping part": "overlap in memory.*begins at element",
    "coalesced scatter into an overlapping part": "overlap in memory.*begins at element",
    "all_gather_into_tensor_uneven of an overlapping part": "overlap in memory.*begins at element",
    "reduce_scatter_tensor_uneven into an overlapping part": "overlap in memory.*begins at element",
    "all_reduce_coalesced on two devices": "tensors on npu:[01] and on npu:[01]",
    "all_to_all_single to channels_last": "elements in different orders",
    "all_gather_into_tensor from channels_last": "elements in different orders",
    "reduce_scatter_tensor of channels_last": "elements in different orders",
    "scatter to channels_last": "is channels_last",
    "reduce_scatter to channels_last": "is channels_last",
    "batch with a message that is not contiguous": "not contiguous",
}


@pytest.mark.parametrize("kind", ["call and replay", "two replays"])
def test_a_replay_keeps_the_order_of_the_group(rank_sets, kind):
    assert rank_sets.get(TWO).run(joined, mixed, kind) == [0, 0]


def test_destroy_waits_for_replays(rank_sets):
    assert rank_sets.get(TWO).run(joined, destroyed_after_replay) == [16, 16]


@pytest.mark.parametrize("how", ["destroyed", "aborted"])
def test_a_wait_after_leaving_the_group_reports_the_unfinished_collective(rank_sets, how):
    text, _ = rank_sets.get(TWO).run(waited_late, how)
    assert "all_reduce number 2" in text and "did not succeed before its group failed" in text


@pytest.mark.parametrize("how", ["waited for", "noticed", "waited for by a stream", "repaired"])
def test_a_new_group_after_a_timeout(rank_sets, how):
    with rank_sets.fresh(TWO) as ranks:
        assert ranks.run(rejoined, how) == [[2.0] * 4] * 2


def test_a_new_group_after_a_failure_that_no_call_reported(rank_sets):
    with rank_sets.fresh(TWO) as ranks:
        assert ranks.run(rejoined_at_once) == [[2.0] * 4] * 2


def test_splits_of_some_ranks_before_splits_of_all(rank_sets):
    assert rank_sets.get(FOUR).run(joined, splits) == [[4.0] * 3, [6.0] * 3, [4.0] * 3, [6.0] * 3]


def test_a_wrapped_backend_names_its_communicator(rank_sets):
    assert rank_sets.get(TWO).run(in_detail) == [[3.0, 3.0]] * 2


def test_splits_with_one_object_of_options(rank_sets):
    answers = rank_sets.get(FOUR).run(joined, splits_with_one_object)
    assert answers == [[1.0, 2.0], [1.0, 4.0], [5.0, 2.0], [5.0, 4.0]]


def test_a_barrier_of_a_second_group_on_the_store_waits(rank_sets):
    assert rank_sets.get(TWO).run(barriers)[1] > 0.2


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_call_says_why_and_leaves_the_group_usable(rank_sets, kind):
    for text in rank_sets.get(TWO).run(joined, refusal, kind):
        assert re.search(REFUSED[kind], text), text


def test_the_own_part_may_be_given_in_place(rank_sets):
    assert rank_sets.get(TWO).run(joined, in_place) == [([1, 1, 2, 2], [2, 2]), ([1, 1, 2, 2], [4, 4])]


@pytest.mark.parametrize("setting", [TWO, FOUR], ids=["two", "four"])
def test_lists_may_lie_in_one_buffer(rank_sets, setting):
    rank_sets.get(setting).run(joined, lists_in_one_buffer)
