"""The tools of these tests: failures of ranks are reported, hung ranks are killed, wrong results are noticed, nothing is left."""

import os
import signal
import time

import pytest
import torch
from torch import distributed as dist

from tests.distributed.operations import OPERATIONS, AllReduce, Call, run
from tests.distributed.rank_processes import RankError, RankSet, Setting, shared_memory

PAIR = Setting("gloo", 2)


def number(rank, factor):
    return rank.rank * factor


def fails_on_rank_1(rank):
    if rank.rank == 1:
        raise KeyError("a word to find")


def hangs_on_rank_1(rank):
    if rank.rank == 1:
        time.sleep(1000)


def dies_on_rank_1(rank):
    if rank.rank == 1:
        print("the last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def pid_of(rank):
    return os.getpid()


def is_running(pid):
    return os.path.exists(f"/proc/{pid}")


def test_results_come_in_the_order_of_the_ranks(rank_sets):
    assert rank_sets.get(PAIR).run(number, 5) == [0, 5]


def test_processes_stay_the_same_between_calls(rank_sets):
    ranks = rank_sets.get(PAIR)
    assert ranks.run(pid_of) == rank_sets.get(PAIR).run(pid_of) == ranks.pids


def test_a_failure_shows_the_traceback_of_the_rank(rank_sets):
    with pytest.raises(RankError, match=r"(?s)rank 1: .*in fails_on_rank_1.*a word to find") as caught:
        rank_sets.get(PAIR).run(fails_on_rank_1)
    assert list(caught.value.tracebacks) == [1]
    assert rank_sets.get(PAIR).run(number, 1) == [0, 1]


def test_a_hung_rank_is_killed_with_its_stacks_and_the_set_restarted(rank_sets):
    ranks = rank_sets.get(PAIR)
    before = ranks.pids
    with pytest.raises(RankError, match=r"(?s)no answer within 2 s.*hangs_on_rank_1"):
        ranks.run(hangs_on_rank_1, limit=2)
    assert not any(map(is_running, before))
    assert rank_sets.get(PAIR).run(number, 1) == [0, 1]
    assert not set(before) & set(rank_sets.get(PAIR).pids)


def test_a_dead_rank_is_reported_with_what_it_printed(rank_sets):
    with pytest.raises(RankError, match=r"(?s)status -9.*the last words"):
        rank_sets.get(PAIR).run(dies_on_rank_1)
    assert rank_sets.get(PAIR).run(number, 1) == [0, 1]


def test_close_leaves_no_process_and_no_shared_memory(rank_sets):
    before = shared_memory()
    ranks = RankSet(Setting("gloo", 3))
    pids = ranks.pids
    ranks.run(number, 1)
    ranks.close()
    assert not any(map(is_running, pids))
    assert shared_memory() == before


class Wrong(AllReduce):
    """An all_reduce with one mistake on rank 1."""

    def __init__(self, mistake):
        super().__init__()
        self.mistake = mistake

    def launch(self, call, tensors):
        work, outputs = super().launch(call, tensors)
        if call.rank == 1:
            self.mistake(call, outputs[0])
        return work, outputs


def last_element(call, output):
    output[-1] += 1


def before_the_tensor(call, output):
    call.buffers[0][2] = 5


def behind_the_tensor(call, output):
    call.buffers[0][-3] = 5


def mistaken(rank, mistake):
    call = Call(dist.group.WORLD, rank.rank, rank.world, rank.device, torch.float32, 100)
    if rank.rank == 0:
        run(Wrong(mistake), call)
        return
    with pytest.raises(AssertionError, match=r"Wrong, torch\.float32, 100 elements"):
        run(Wrong(mistake), call)


@pytest.mark.parametrize("mistake", [last_element, before_the_tensor, behind_the_tensor])
def test_a_wrong_result_is_noticed(rank_sets, mistake):
    rank_sets.get(PAIR).run(mistaken, mistake)


def test_ranks_have_different_inputs():
    for name, operation in OPERATIONS.items():
        if name == "barrier":
            continue
        call = Call(None, 0, 3, torch.device("cpu"), torch.int32, 50)
        inputs = [operation.inputs(call, rank) for rank in range(3)]
        flat = [torch.cat(tensors).tolist() for tensors in inputs if tensors]
        assert len({tuple(numbers) for numbers in flat}) == len(flat), name
