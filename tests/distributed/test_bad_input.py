"""Bad input is an error on every rank within the timeout, which names rank, operation and what differs.

Afterwards the process is usable and nothing is left in shared memory.
"""

import contextlib
import datetime
import itertools
import os
import re
import socket
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import distributed as dist

from tests.distributed.rank_processes import Setting, free_port, shared_memory

TIMEOUT = 4  # seconds of the process group and of libhccl
PATIENCE = 60  # seconds after which an error counts as late; the machine may be busy
# A rank of a busy machine may connect late.
LIMITS = (("HCCL_EXEC_TIMEOUT", str(TIMEOUT)), ("HCCL_CONNECT_TIMEOUT", str(PATIENCE // 2)))
TWO = Setting("hccl", 2, environment=LIMITS, join=False)
THREE = Setting("hccl", 3, environment=LIMITS, join=False)
TCP = Setting("hccl", 2, environment=(*LIMITS, ("SOFTNPU_HCCL_TRANSPORT", "tcp")), join=False)
names = itertools.count()


def seconds(number):
    return datetime.timedelta(seconds=number)


def attempt(function, *arguments):
    """The text of the error of a call and of a synchronisation after it, and the seconds it took; None for no error."""
    begin = time.monotonic()
    try:
        function(*arguments)
        torch.npu.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}", time.monotonic() - begin
    return None, time.monotonic() - begin


def meet(rank, name):
    """Waits for the other ranks without the process group."""
    store = rank.store(f"{name} meets", seconds(PATIENCE))
    store.set(str(rank.rank), "here")
    store.wait([str(each) for each in range(rank.world)])


def usable(rank, name):
    """The process computes, and makes a new process group."""
    torch.npu.synchronize()
    assert (torch.ones(3, device=rank.device) + 1).tolist() == [2.0, 2.0, 2.0]
    rank.join(name)
    x = torch.full((5,), rank.rank + 1.0, device=rank.device)
    dist.all_reduce(x)
    assert x.tolist() == [rank.world * (rank.world + 1) / 2] * 5
    dist.destroy_process_group()


def failing(rank, name, body, arguments):
    """Makes a group, uses it, calls `body`, destroys the group and makes another one. Returns the error of the body."""
    rank.join(name, timeout=seconds(TIMEOUT))
    dist.all_reduce(torch.ones(1, device=rank.device))
    torch.npu.synchronize()
    text, took = attempt(body, rank, *arguments)
    meet(rank, name)
    with contextlib.suppress(RuntimeError):  # the same error once more
        dist.destroy_process_group()
    usable(rank, f"{name} again")
    return text, took


def errors_of(rank_sets, setting, body, *arguments):
    """The errors of all ranks. Nothing is left in shared memory."""
    before = shared_memory()
    answers = rank_sets.get(setting).run(failing, f"bad {next(names)}", body, arguments)
    assert not shared_memory() - before
    for rank, (text, took) in enumerate(answers):
        assert text is not None, f"rank {rank} got no error"
        assert took < PATIENCE, f"rank {rank} got its error after {took:.0f} s"
    return [text for text, _ in answers]


def assert_words(texts, *words):
    for rank, text in enumerate(texts):
        for word in words:
            assert re.search(word, text, re.IGNORECASE), f"rank {rank}: no {word!r} in:\n{text}"


# Mismatched collectives: rank 1 differs.


def mismatch(rank, kind):
    odd = rank.rank == 1
    x = torch.ones(12, device=rank.device)
    if kind == "operation" and odd:
        dist.broadcast(x, src=0)
    elif kind == "operation":
        dist.all_reduce(x)
    elif kind == "count":
        dist.all_reduce(x[: 11 if odd else 12])
    elif kind == "dtype":
        dist.all_reduce(x.int() if odd else x)
    elif kind == "root":
        dist.broadcast(x, src=1 if odd else 0)
    elif kind == "reduction":
        dist.all_reduce(x, op=dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM)
    elif kind == "average":
        dist.all_reduce(x, op=dist.ReduceOp.AVG if odd else dist.ReduceOp.SUM)
    elif kind == "averaged type":
        dist.all_reduce(x.to(torch.int8 if odd else torch.int16), op=dist.ReduceOp.AVG)
    elif kind == "bitwise":
        dist.all_reduce(x.int(), op=dist.ReduceOp.BAND if odd else dist.ReduceOp.BOR)
    elif kind == "layout":
        images = torch.ones(2, 3, 4, 5, device=rank.device)
        dist.all_reduce(images.contiguous(memory_format=torch.channels_last) if odd else images)
    elif kind == "gathered count":
        part = x[: 3 if odd else 4]
        dist.all_gather_into_tensor(torch.empty(part.numel() * rank.world, device=rank.device), part)
    elif kind == "splits":
        splits = [5, 7] if odd else [6, 6]
        dist.all_to_all_single(torch.empty(12, device=rank.device), x, splits, splits)
    elif kind == "message":
        dist.send(x, 0) if odd else dist.recv(torch.empty(10, device=rank.device), 1)


MISMATCHES = {
    "operation": ["broadcast", "all_?reduce", "rank 1"],
    "count": ["11", "12", "all_?reduce", "rank 1"],
    "dtype": ["int32", "float32", "all_?reduce", "rank 1"],
    "root": ["root 0", "root 1", "broadcast", "rank 1"],
    "reduction": ["max", "sum", "all_?reduce", "rank 1"],
    "average": ["avg", "sum", "all_?reduce", "rank 1"],
    "averaged type": ["char", "short", "all_?reduce", "rank 1"],
    "bitwise": ["band", "bor", "rank 1"],
    "layout": ["channels_last", "all_?reduce", "rank 1"],
    "gathered count": ["3", "4", "all_?gather", "rank 1"],
    "splits": ["all_?to_?all", "rank 1"],
    "message": ["12", "10", "rank"],
}


@pytest.mark.parametrize("kind", MISMATCHES)
def test_a_mismatched_collective_names_what_differs_on_every_rank(rank_sets, kind):
    assert_words(errors_of(rank_sets, TWO, mismatch, kind), *MISMATCHES[kind])


@pytest.mark.parametrize("kind", ["count", "operation", pytest.param("dtype", marks=pytest.mark.full)])
def test_a_mismatch_is_seen_by_ranks_that_agree_too(rank_sets, kind):
    assert_words(errors_of(rank_sets, THREE, mismatch, kind), *MISMATCHES[kind])


@pytest.mark.parametrize("kind", ["count", "operation", pytest.param("dtype", marks=pytest.mark.full)])
def test_a_mismatch_over_tcp(rank_sets, kind):
    assert_words(errors_of(rank_sets, TCP, mismatch, kind), *MISMATCHES[kind])


def looks_late(rank):
    """The watchdog sees the failure before the program does."""
    dist.all_reduce(torch.ones(12 - rank.rank, device=rank.device), async_op=True)
    time.sleep(0.5)
    dist.all_reduce(torch.ones(1, device=rank.device))


def test_a_late_call_gets_the_text_of_the_first_failure(rank_sets):
    assert_words(errors_of(rank_sets, TWO, looks_late), "count", "11 elements", "12 elements", "rank 1")


def never(rank):
    if rank.rank == 1:
        raise RuntimeError("this rank did not call")
    dist.all_reduce(torch.ones(7, device=rank.device))


@pytest.mark.parametrize("setting", [TWO, TCP], ids=["shared_memory", "tcp"])
def test_a_rank_that_never_calls_is_named(rank_sets, setting):
    text, _ = errors_of(rank_sets, setting, never)
    assert_words([text], "all_?reduce", "rank 1", "time")


def monitored(rank):
    if rank.rank == 1:
        raise RuntimeError("this rank did not come")
    dist.monitored_barrier(timeout=seconds(1))


def test_a_monitored_barrier_names_the_rank_that_is_missing(rank_sets):
    texts = errors_of(rank_sets, THREE, monitored)
    assert_words([texts[0], texts[2]], "monitored_barrier", "rank 1")


# Wrong tensors: refused before anything is sent, so that the group stays usable.


def refused(rank, kind):
    x = torch.ones(4, 4, device=rank.device)
    other = torch.ones(4, 4, device=torch.device("npu", (rank.device.index + 1) % 2))
    y = torch.ones(2, 4, 4, device=rank.device)
    calls = {
        "cpu": lambda: dist.all_reduce(torch.ones(4)),
        "other device": lambda: dist.all_gather([x, other], x),
        "devices in one call": lambda: dist.all_gather_into_tensor(torch.ones(8, 4, device=other.device), x),
        "strided output": lambda: dist.all_gather_into_tensor(torch.ones(4, 8, device=rank.device).t(), x),
        "strided all_reduce": lambda: dist.all_reduce(torch.ones(4, 8, device=rank.device).t()),
        "expanded output": lambda: dist.all_gather([x[:1].expand(4, 4)] * rank.world, x),
        "size": lambda: dist.all_gather_into_tensor(torch.ones(7, 4, device=rank.device), x),
        "dtype of the output": lambda: dist.all_gather_into_tensor(y.half(), x),
        "number of outputs": lambda: dist.all_gather([x], x),
        "splits": lambda: dist.all_to_all_single(torch.ones(4, 4, device=rank.device), x, [1, 2], [2, 2]),
        "message of a batch": lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, y.transpose(0, 2), 1 - rank.rank)]),
    }
    text, _ = attempt(calls[kind])
    dist.all_reduce(x)
    assert x.sum().item() == 16.0 * rank.world
    return text


def refusals(rank, name, kind):
    rank.join(name, timeout=seconds(TIMEOUT))
    text = refused(rank, kind)
    dist.destroy_process_group()
    return text


REFUSALS = {
    "cpu": ["cpu"],
    "other device": ["npu:0", "npu:1", "all_?gather"],
    "devices in one call": ["npu:0", "npu:1", "all_?gather"],
    "strided output": ["contiguous", "all_?gather"],
    "strided all_reduce": ["contiguous", "all_?reduce"],
    "expanded output": ["share memory", "all_?gather"],
    "size": [r"28|7, 4", "all_?gather"],
    "dtype of the output": ["dtype|type", "all_?gather"],
    "number of outputs": ["1", "2", "all_?gather"],
    "splits": ["split", "4|3"],
    "message of a batch": ["contiguous", "send"],
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_wrong_tensors_are_refused_and_the_group_stays_usable(rank_sets, kind):
    texts = rank_sets.get(TWO).run(refusals, f"bad {next(names)}", kind)
    assert None not in texts
    assert_words(texts, *REFUSALS[kind])


# Ranks that do not meet.


def alone(rank, arguments):
    """init_process_group with wrong arguments, then a good group."""
    torch.npu.set_device(rank.device)

    def start():
        dist.init_process_group("hccl", timeout=seconds(TIMEOUT), **arguments)
        dist.all_reduce(torch.ones(1, device=rank.device))

    text, took = attempt(start)
    if dist.is_initialized():
        dist.destroy_process_group()
    usable(rank, f"after {arguments}")
    return text, took


def meeting_error(rank_sets, **arguments):
    ((text, took),) = rank_sets.get(Setting("hccl", 1, environment=LIMITS, join=False)).run(alone, arguments)
    assert text is not None
    assert took < PATIENCE
    return text


def test_an_unknown_host(rank_sets):
    text = meeting_error(rank_sets, init_method="tcp://no-such-host.invalid:29500", rank=1, world_size=2)
    assert_words([text], "host not found", r"no-such-host\.invalid")


def test_a_closed_port(rank_sets):
    port = free_port()
    text = meeting_error(rank_sets, init_method=f"tcp://127.0.0.1:{port}", rank=1, world_size=2)
    assert_words([text], rf"127\.0\.0\.1\D{{1,4}}{port}", "firewall|port")


def other_world(rank, name, worlds):
    """The ranks disagree on the world size."""
    torch.npu.set_device(rank.device)

    def start():
        arguments = {"rank": rank.rank, "world_size": worlds[rank.rank], "timeout": seconds(TIMEOUT)}
        dist.init_process_group("hccl", store=rank.store(name, seconds(TIMEOUT)), **arguments)
        dist.all_reduce(torch.ones(1, device=rank.device))

    answer = attempt(start)
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()
    usable(rank, f"{name} again")
    return answer


def test_a_wrong_world_size(rank_sets):
    answers = rank_sets.get(TWO).run(other_world, f"bad {next(names)}", (2, 3))
    assert all(text is not None and took < PATIENCE for text, took in answers), answers
    assert_words([text for text, _ in answers], r"world size|world_size|ranks", "2", "3")


def same_device(rank, name):
    torch.npu.set_device(0)
    arguments = {"rank": rank.rank, "world_size": 2, "timeout": seconds(TIMEOUT)}
    dist.init_process_group("hccl", store=rank.store(name), **arguments)
    answer = attempt(lambda: dist.all_reduce(torch.ones(1, device="npu:0")))
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()
    usable(rank, f"{name} again")
    return answer


def test_two_ranks_on_one_device(rank_sets):
    answers = rank_sets.get(TWO).run(same_device, f"bad {next(names)}")
    assert all(text is not None and took < PATIENCE for text, took in answers), answers
    assert_words([text for text, _ in answers], "rank 0|ranks 0", "rank 1|and 1", "device")


# Strangers and broken messages.


def endpoint(words):
    """The address and port from a word of /proc/net/tcp. The address consists of numbers of four bytes, lowest byte first."""
    address, port = words.split(":")
    numbers = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    return socket.inet_ntop(socket.AF_INET if len(numbers) == 1 else socket.AF_INET6, b"".join(numbers)), int(port, 16)


def sockets():
    """A table of the TCP sockets of this process: descriptor -> (state, own endpoint, other endpoint)."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/self/net", name).read_text().splitlines()[1:]]
    by_inode = {line[9]: (line[3], endpoint(line[1]), endpoint(line[2])) for line in lines}
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith("socket:[") and target[8:-1] in by_inode:
                found[int(descriptor)] = by_inode[target[8:-1]]
    return found


ESTABLISHED, LISTENING = "01", "0A"


def break_messages(rank, how):
    """Rank 1 writes to the connections of its communicator, or closes them."""
    broken = 0
    if rank.rank == 1:
        for descriptor, (state, _, (_, other_port)) in sockets().items():
            if state == ESTABLISHED and other_port != rank.port:
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    if how == "corrupt":
                        connection.send(b"\xa5" * 4096, socket.MSG_DONTWAIT)
                    else:
                        connection.shutdown(socket.SHUT_WR)
                    broken += 1
        assert broken
    dist.all_reduce(torch.ones(100_000, device=rank.device))


@pytest.mark.parametrize("how", ["corrupt", "truncated"])
def test_a_broken_message_is_an_error_on_every_rank(rank_sets, how):
    words = ["is damaged"] if how == "corrupt" else []
    assert_words(errors_of(rank_sets, TCP, break_messages, how), "rank", "all_?reduce", *words)


def attack(place, stop, connected):
    """A port scanner: connects, says nothing, garbage or HTTP, and goes or stays."""
    kept = []
    for words in (b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(4096), b"\0" * 65536, b"\xff" * 8):
        with contextlib.suppress(OSError):
            connection = socket.create_connection(place, timeout=2)
            connected.append(words)
            connection.sendall(words)
            kept.append(connection) if len(kept) % 2 == 0 else connection.close()
    stop.wait(PATIENCE)
    for connection in kept:
        connection.close()


def scanned(rank, name):
    """Strangers connect to every port of the process while its ranks meet, and afterwards."""
    stop, attacked, threads, connected = threading.Event(), set(), [], []

    def scan():
        while not stop.is_set():
            for state, place, _ in list(sockets().values()):
                if state == LISTENING and place not in attacked:
                    attacked.add(place)
                    threads.append(threading.Thread(target=attack, args=(place, stop, connected)))
                    threads[-1].start()
            time.sleep(0.002)

    scanner = threading.Thread(target=scan)
    scanner.start()
    rank.join(name)
    if rank.rank == 1:
        time.sleep(0.3)
    x = torch.ones(1000, device=rank.device)
    dist.all_reduce(x)
    y = torch.ones(1000, device=rank.device)
    dist.all_reduce(y, group=dist.new_group([0, 1]))
    result = (x.sum() + y.sum()).item()
    stop.set()
    for thread in (scanner, *threads):
        thread.join()
    dist.destroy_process_group()
    return result, len(connected)


@pytest.mark.parametrize("setting", [TWO, TCP], ids=["shared_memory", "tcp"])
def test_a_port_scanner_changes_nothing(rank_sets, setting):
    answers = rank_sets.get(setting).run(scanned, f"bad {next(names)}")
    assert [result for result, _ in answers] == [4000.0, 4000.0]
    assert sum(connected for _, connected in answers) > 0
