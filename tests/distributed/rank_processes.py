"""Sets of rank processes. A set serves all tests with the same setting. It ends when too many other sets exist.

    ranks = rank_sets.get(Setting("hccl", world=4))
    results = ranks.run(function, *arguments)      # function(rank, *arguments) on every rank; a list with one result per rank

The function must be a top-level function of a module, because it is pickled by name. `rank` is a `Rank`. If the function raises
on a rank, `run` raises RankError with the traceback of each failed rank. A rank that does not answer in time prints the stacks of
its threads and is killed. A set that failed is closed, and `get` starts a new one.

Processes are forked by the fork server of multiprocessing, which has imported torch and has used no device: a set starts in a
fraction of a second. They end with the session, also if pytest is killed.
"""

import contextlib
import ctypes
import datetime
import faulthandler
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing import connection as pipes
from pathlib import Path

import pytest

from tests.distributed import nodes

MOST_PROCESSES = 40  # of all sets
LIMIT = 90  # seconds that a call may take; the machine may be busy
GROUP_TIMEOUT = datetime.timedelta(seconds=60)
PR_SET_PDEATHSIG = 1

context = multiprocessing.get_context("forkserver")
# Importing torch.distributed.fsdp and the others takes seconds. The fork server imports them once, instead of each rank.
context.set_forkserver_preload(
    ["torch", "numpy", "pytest", "torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch.distributed.checkpoint"]
)


@dataclass(frozen=True)
class Setting:
    """How the ranks of a set are started.

    backend: "hccl" with tensors on npu, or "gloo" with tensors on the CPU.
    devices: the device of each rank; () for device r of rank r.
    environment: pairs of names and values. In a value, {pair} stands for the number of the rank divided by two, and {node} for 0
        in the first half of the ranks and 1 in the second.
    join: whether the ranks have a default process group. Tests of init_process_group have none.
    """

    backend: str
    world: int
    devices: tuple = ()
    environment: tuple = ()
    join: bool = True


class RankError(AssertionError):
    """A function failed on some ranks: `tracebacks` has the text of each of them by rank."""

    def __init__(self, tracebacks):
        super().__init__("\n".join(f"rank {rank}: {text}" for rank, text in sorted(tracebacks.items())))
        self.tracebacks = tracebacks


@dataclass
class Rank:
    """The rank that a function runs on. `groups` caches process groups by layout for the life of the process."""

    rank: int
    setting: Setting
    port: int
    groups: dict = field(default_factory=dict)

    def prepare(self, environment):
        """Sets environment variables and enters the network of the rank. Called before torch is imported."""
        places = {"pair": self.rank // 2, "node": 2 * self.rank // self.world}
        os.environ.update((name, value.format(**places)) for name, value in environment)
        if "RANK_NETWORK" in os.environ:
            nodes.enter(os.environ["RANK_NETWORK"])

    @property
    def world(self):
        return self.setting.world

    @property
    def device(self):
        import torch

        if self.setting.backend == "gloo":
            return torch.device("cpu")
        return torch.device("npu", (self.setting.devices or range(self.world))[self.rank])

    def store(self, name="default", timeout=GROUP_TIMEOUT):
        """A store that all ranks share, with keys of its own for each name. The server is the process of pytest."""
        from torch import distributed as dist

        host = os.environ.get("RANK_STORE", "127.0.0.1")
        store = dist.TCPStore(
            host, self.port, is_master=False, timeout=GROUP_TIMEOUT
        )  # connects the ranks, which may take seconds
        store.set_timeout(timeout)
        return dist.PrefixStore(name, store)

    def join(self, name="default", timeout=GROUP_TIMEOUT, store=None, **options):
        """Makes the default process group. Each use needs a new name, or a new part of a store."""
        import torch
        from torch import distributed as dist

        if self.device.type != "cpu":
            torch.accelerator.set_device_index(self.device.index)
        arguments = {"backend": self.setting.backend, "rank": self.rank, "world_size": self.world, **options}
        dist.init_process_group(store=store or self.store(name, timeout), timeout=timeout, **arguments)


def free_port():
    """A TCP port of the loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def shared_memory():
    """Names of shared memory of this machine, without the ledger of device memory."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("softnpu")}


def _serve(pipe, rank, output):
    """The main function of a rank process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1), os.dup2(descriptor, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    faulthandler.enable()
    rank.prepare(rank.setting.environment)
    import torch
    import torch_npu  # noqa: F401
    from torch import distributed as dist

    torch.set_num_threads(1)
    if rank.setting.backend == "hccl":
        torch.npu.set_strict_fallback(True)  # as tests/conftest.py does
    torch.autograd.Variable._execution_engine.is_checkpoint_valid()  # see tests/device/repeat_program.py
    with contextlib.suppress(EOFError):
        while True:
            try:
                function, arguments = pickle.loads(pipe.recv_bytes())
                answer = pickle.dumps((True, function(rank, *arguments)))
            except EOFError:
                raise
            except BaseException:
                answer = pickle.dumps((False, traceback.format_exc()))
            pipe.send_bytes(answer)
    if dist.is_initialized():
        dist.destroy_process_group()


def _join(rank):
    rank.join()


class RankSet:
    """The processes of a setting. `run` calls a function on each."""

    def __init__(self, setting):
        from torch import distributed as dist

        if "RANK_NETWORK" in dict(setting.environment) and (reason := nodes.make()):
            pytest.skip(reason)
        self.setting = setting
        self.failed = False
        self._folder = tempfile.TemporaryDirectory(prefix="torch_npu_ranks_")
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=GROUP_TIMEOUT)
        self._processes, self._pipes = [], []
        for number in range(setting.world):
            pipe, other = context.Pipe()
            rank = Rank(number, setting, self._store.port)
            process = context.Process(target=_serve, args=(other, rank, str(self._output(number))), daemon=True)
            process.start()
            other.close()
            self._processes.append(process)
            self._pipes.append(pipe)
        if setting.join:
            self.run(_join)

    def _output(self, number):
        return Path(self._folder.name, f"rank{number}.txt")

    def printed(self, number):
        """The last lines that a rank printed."""
        path = self._output(number)
        return path.read_text(errors="replace")[-6000:] if path.exists() else ""

    @property
    def pids(self):
        return [process.pid for process in self._processes]

    def run(self, function, *arguments, limit=LIMIT):
        """Calls the function on each rank and returns the results. Raises RankError if it fails on one."""
        answers = self.outcomes(function, *arguments, limit=limit)
        failed = {number: text for number, (good, text) in enumerate(answers) if not good}
        if failed:
            self.close()
            raise RankError(failed)
        return [value for _, value in answers]

    def outcomes(self, function, *arguments, limit=LIMIT):
        """Calls the function on each rank. Returns for each rank (True, result) or (False, traceback)."""
        request = pickle.dumps((function, arguments))
        for pipe in self._pipes:
            with contextlib.suppress(BrokenPipeError):
                pipe.send_bytes(request)
        waiting, answers, end = dict(enumerate(self._pipes)), {}, time.monotonic() + limit
        while waiting:
            ready = pipes.wait(waiting.values(), max(0, end - time.monotonic()))
            if not ready:
                break
            for number in [number for number, pipe in waiting.items() if pipe in ready]:
                try:
                    answers[number] = pickle.loads(waiting.pop(number).recv_bytes())
                except (EOFError, ConnectionResetError):
                    self._processes[number].join(10)
                    code = self._processes[number].exitcode
                    answers[number] = (False, f"the process ended with status {code}\n{self.printed(number)}")
                    end = min(end, time.monotonic() + 30)  # the others may wait for it
        for number in waiting:
            os.kill(self._processes[number].pid, signal.SIGABRT)  # faulthandler prints the stacks
            self._processes[number].join(10)
            answers[number] = (False, f"no answer within {limit} s, so it was killed\n{self.printed(number)}")
        self.failed = self.failed or bool(waiting) or not all(process.is_alive() for process in self._processes)
        return [answers[number] for number in range(self.setting.world)]

    def close(self):
        """Ends the processes: those that are still there after a while are killed."""
        for pipe in self._pipes:
            pipe.close()
        end = time.monotonic() + (0 if self.failed else 20)
        for process in self._processes:
            process.join(max(0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self.failed = True
        self._folder.cleanup()


class RankSets:
    """The sets of a session by their setting. The set that was used last is at the end."""

    def __init__(self):
        self._sets = {}

    def get(self, setting):
        ranks = self._sets.pop(setting, None)
        if ranks is None or ranks.failed:
            self._make_room(setting.world)
            ranks = RankSet(setting)
        self._sets[setting] = ranks
        return ranks

    def _make_room(self, world):
        """Ends the sets that have not been used for the longest time, because each process keeps memory of its device."""
        while self._sets and sum(setting.world for setting in self._sets) + world > MOST_PROCESSES:
            ranks = self._sets.pop(next(iter(self._sets)))
            if not ranks.failed:
                ranks.close()

    def fresh(self, setting):
        """A new set, closed by the caller. For tests that leave broken process groups behind."""
        return contextlib.closing(RankSet(setting))

    def close(self):
        for ranks in self._sets.values():
            if not ranks.failed:
                ranks.close()
