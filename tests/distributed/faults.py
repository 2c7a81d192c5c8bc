"""Faults of one rank, and the errors of the other ranks. Used by test_rank_faults.py, and as a program:

    scripts/bench faults --runs 100                   # seconds from each fault to each survivor's error, and leftovers
    python -m tests.distributed.faults --kinds kill stop --ranks 4         # the same with the installed torch_npu

Each run starts new rank processes. The last rank has the fault. The others call all_reduce in a loop until it raises.
"""

import argparse
import contextlib
import datetime
import itertools
import multiprocessing
import os
import re
import signal
import socket
import statistics
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing import connection as pipes
from pathlib import Path

import pytest

from tests.distributed import nodes
from tests.distributed.rank_processes import Rank, Setting, context, shared_memory

TIMEOUT = 5  # seconds of the process group
PATIENCE = 90  # seconds after which a survivor counts as hung; long, because the machine may be busy
KINDS = ("kill", "stop", "exception", "memory", "kernel", "cut", "corrupt", "unplug")
DEAD = ("kill", "exception", "memory", "kernel", "cut", "corrupt")  # faults that are noticed at once, without the timeout
LINKS = ("cut", "corrupt", "unplug")  # faults of connections, so the ranks use TCP
TCP = (("SOFTNPU_HCCL_TRANSPORT", "tcp"),)


@dataclass
class Outcome:
    """errors: text and seconds since the fault, for each survivor. left: files, ports and processes that the run left behind."""

    kind: str
    errors: list = field(default_factory=list)
    left: list = field(default_factory=list)


def _connections(port):
    """Descriptors of the established TCP connections of this process, without connections to the store."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/self/net", name).read_text().splitlines()[1:]]
    wanted = {line[9] for line in lines if line[3] == "01" and int(line[2].split(":")[1], 16) != port}
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            inode = os.readlink(f"/proc/self/fd/{descriptor}").removeprefix("socket:[").removesuffix("]")
            if inode in wanted:
                yield int(descriptor)


def _harm(kind, rank):
    """Makes the fault happen. A rank whose connections are cut or damaged continues."""
    import torch

    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "exception":
        raise RuntimeError("an exception of the program")
    elif kind == "memory":
        torch.empty(1 << 50, dtype=torch.uint8, device=rank.device)
    elif kind == "kernel":
        torch.ones(3, device=rank.device)[torch.tensor([99], device=rank.device)].cpu()
    for descriptor in list(_connections(rank.port)):
        with socket.socket(fileno=os.dup(descriptor)) as connection, contextlib.suppress(OSError):
            if kind == "cut":
                connection.shutdown(socket.SHUT_RDWR)
            else:
                connection.send(b"\xa5" * 4096, socket.MSG_DONTWAIT)


def _work(rank, kind, pipe, environment, output):
    """The main function of a rank process."""
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1), os.dup2(descriptor, 2)
    rank.prepare(environment)
    import torch
    import torch_npu  # noqa: F401
    from torch import distributed as dist

    torch.set_num_threads(1)
    rank.join(timeout=datetime.timedelta(seconds=TIMEOUT))
    x = torch.ones(1000, device=rank.device)
    for _ in range(3):
        dist.all_reduce(x)
    torch.npu.synchronize()
    faulty = rank.rank == rank.world - 1
    if faulty:
        time.sleep(0.2)
        pipe.send(time.monotonic())  # a clock that all processes share
        if kind == "unplug":
            pipe.recv()  # the parent has cut the link
        else:
            _harm(kind, rank)
    try:
        while True:
            dist.all_reduce(x)
            torch.npu.synchronize()
    except Exception as error:
        if not faulty:
            pipe.send((f"{type(error).__name__}: {error}", time.monotonic()))
        else:
            traceback.print_exc()
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


def _family(pid):
    """The process and its descendants."""
    yield pid
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _family(int(child))


def _listeners():
    """Listening TCP ports and named UNIX sockets of this process and its descendants, not those of other programs."""
    found = {}
    for name in ("tcp", "tcp6"):
        lines = [line.split() for line in Path("/proc/net", name).read_text().splitlines()[1:]]
        found |= {line[9]: f"TCP port {int(line[1].split(':')[1], 16)}" for line in lines if line[3] == "0A"}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and re.search("hccl|npu", words[7]):
            found[words[6]] = f"UNIX socket {words[7]}"
    held = set()
    for pid in _family(os.getpid()):
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    held.add(os.readlink(f"/proc/{pid}/fd/{descriptor}").removeprefix("socket:[").removesuffix("]"))
    return {text for inode, text in found.items() if inode in held}


def provoke(kind, world=3, environment=(), folder=None):
    """Runs one fault and returns its Outcome. The ranks write files to `folder`, or to a temporary folder that must be empty
    afterwards."""
    from torch import distributed as dist

    needs_tcp = kind in ("cut", "corrupt")
    if kind == "unplug":
        if reason := nodes.make():
            pytest.skip(reason)
        environment = (*environment, *nodes.environment())
    before, outcome = (shared_memory(), _listeners()), Outcome(kind)
    with tempfile.TemporaryDirectory(prefix="torch_npu_faults_") as own:
        files, prints = Path(folder or own, "files"), Path(own, "prints")
        files.mkdir(exist_ok=True), prints.mkdir()
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        variables = (*(TCP if needs_tcp else ()), *environment, ("TMPDIR", str(files)))
        # The fork server has already imported torch_npu, which reads the TORCH_ variables. So these need new processes.
        reads_early = any(name.startswith("TORCH_") for name, _ in variables)
        starter = multiprocessing.get_context("spawn") if reads_early else context
        processes, ends = [], []
        for number in range(world):
            here, there = starter.Pipe()
            rank = Rank(number, Setting("hccl", world, join=False), store.port)
            arguments = (rank, kind, there, variables, str(prints / str(number)))
            processes.append(starter.Process(target=_work, args=arguments, daemon=True))
            processes[-1].start()
            there.close()
            ends.append(here)
        try:
            begin = _receive(ends[-1], prints / str(world - 1), "did not start", 4 * PATIENCE)  # imports torch first
            if kind == "unplug":
                nodes.link("down")
                begin = time.monotonic()
                ends[-1].send(None)
            for number, end in enumerate(ends[:-1]):
                text, at = _receive(end, prints / str(number))
                outcome.errors.append((text, at - begin))
            survivors = processes[:-1] if kind == "stop" else processes
            limit = time.monotonic() + PATIENCE
            for number, process in enumerate(survivors):
                process.join(max(0, limit - time.monotonic()))
                if process.is_alive():
                    outcome.left.append(f"the process of rank {number} hangs: {(prints / str(number)).read_text()[-2000:]}")
        finally:
            for process in processes:
                process.kill()
                process.join()
            if kind == "unplug":
                nodes.link("up")
        del store
        if folder is None:
            outcome.left += [f"file {path.name}" for path in files.iterdir()]
    outcome.left += sorted(shared_memory() - before[0])
    outcome.left += sorted(_listeners() - before[1])
    return outcome


def _receive(pipe, prints, problem="got no error", limit=PATIENCE):
    if pipe not in pipes.wait([pipe], limit):
        raise AssertionError(f"a rank {problem} within {limit} s; it printed {prints.read_text()[-3000:]}")
    try:
        return pipe.recv()
    except EOFError:
        raise AssertionError(f"a rank ended early; it printed {prints.read_text()[-3000:]}") from None


def arguments(given=None):
    parser = argparse.ArgumentParser(prog="python -m tests.distributed.faults", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="at least 1 (default: 100)")
    parser.add_argument("--ranks", type=int, default=3, help="of each run, at least 2 (default: 3)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=", ".join(KINDS))
    parsed = parser.parse_args(given)
    for name, least in (("runs", 1), ("ranks", 2)):
        if getattr(parsed, name) < least:
            parser.error(f"--{name} is {getattr(parsed, name)}; it must be at least {least}")
    return parsed


def main(given=None):
    options = arguments(given)
    kinds = list(options.kinds)
    if "unplug" in kinds and (reason := nodes.make()):
        print(f"without unplug: {reason}")
        kinds.remove("unplug")
        if not kinds:
            sys.exit("no fault is left")
    seconds, left, unclear = {}, [], 0
    cycle = itertools.cycle(itertools.product(((), TCP), kinds))
    for number, (transport, kind) in zip(range(1, options.runs + 1), cycle, strict=False):
        outcome = provoke(kind, options.ranks, transport)
        seconds.setdefault(kind, []).extend(took for _, took in outcome.errors)
        left += outcome.left
        words = ("all_?reduce", f"rank {options.ranks - 1}")
        wrong = [text for text, _ in outcome.errors if not all(re.search(word, text, re.IGNORECASE) for word in words)]
        unclear += len(wrong)
        times = " ".join(f"{took:.2f}" for _, took in outcome.errors)
        way = "tcp" if transport or kind in LINKS else "memory"
        line = f"{number:4} {kind:10} {way:6} {times} s; left behind: {outcome.left or 'nothing'}"
        print(line, *wrong, sep="\n     ", flush=True)
    print(f"{'fault':10} survivors  median  longest")
    for kind, values in seconds.items():
        print(f"{kind:10} {len(values):9} {statistics.median(values):6.2f} s {max(values):6.2f} s")
    print(f"{options.runs} runs; left behind: {left or 'nothing'}; errors that do not name rank or operation: {unclear}")
    sys.exit(bool(left or unclear))


if __name__ == "__main__":
    main()
