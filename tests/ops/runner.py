"""Runs cases in processes that may crash or hang, and keeps a journal.

    records = run(["a", "b"], execute, Path("build/sweep/quick.jsonl"))      # execute("a") gives a Result

The caller has imported torch and has used no device: each process is a fork of it and runs a part of the cases. A case that
crashes or takes too long ends its process. It is recorded as crashed or hung, with the output of the process, and a new fork
continues with the next case. A process that computes or waits for the processor has more time than one that sleeps. A process is
also replaced after it has run for long enough. The journal has one line of JSON per finished case.
"""

import contextlib
import dataclasses
import faulthandler
import json
import os
import select
import signal
import sys
import tempfile
import time
from pathlib import Path


@contextlib.contextmanager
def private_device():
    """Sets variables that the device reads at its first use. Logs and ledger are in a folder of this run, so that other processes
    do not interfere."""
    with tempfile.TemporaryDirectory(prefix="torch_npu_tests") as folder:
        os.environ.setdefault("ASCEND_PROCESS_LOG_PATH", folder)
        os.environ.setdefault("SOFTNPU_LEDGER_DIR", folder)
        yield


def report(wrong, table, begin, file):
    """Prints problems and table, writes both to `file` if given, and returns the exit status of the command."""
    text = "\n".join([*wrong, "", *table])
    print(text)
    print(f"{len(wrong)} unexpected, {time.monotonic() - begin:.0f} s")
    if file:
        file.write_text(text + "\n")
    return 1 if wrong else 0


@dataclasses.dataclass
class Result:
    """status: passed, failed, or skipped (no comparison was possible); the runner adds crashed and hung."""

    status: str
    detail: str = ""
    samples: int = 0
    fallback: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Limits:
    jobs: int = 2  # processes at a time
    shard_size: int = 100  # cases of a process
    shard_seconds: float = 900
    case_seconds: float = 60
    patience: int = 5  # factor of the limit for a process that does not sleep


class Shard:
    """A process with cases to run. It sends one line before and one line after each case."""

    def __init__(self, ids, execute, limits):
        self.left = list(ids)
        self._running = None
        self._limits = limits
        self._rest = b""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._wait_anew()
        self.pipe, write = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._work(execute, write)
        os.close(write)

    def _work(self, execute, pipe):
        status = 1
        try:
            os.dup2(self._output.fileno(), 1)
            os.dup2(self._output.fileno(), 2)
            faulthandler.enable(all_threads=False)
            end = time.monotonic() + self._limits.shard_seconds
            with os.fdopen(pipe, "w") as stream:
                for id in self.left:
                    print(json.dumps({"starts": id}), file=stream, flush=True)
                    begin = time.process_time()
                    result = dataclasses.asdict(execute(id))
                    print(json.dumps(_record(id, result, time.process_time() - begin)), file=stream, flush=True)
                    if time.monotonic() > end:
                        break
            status = 0
        finally:
            os._exit(status)

    def _wait_anew(self):
        self.deadline = time.monotonic() + self._limits.case_seconds
        self._extensions = self._limits.patience - 1

    def is_late(self):
        if time.monotonic() < self.deadline:
            return False
        if self._extensions == 0 or _sleeps(self.pid):
            return True
        self._extensions -= 1
        self.deadline += self._limits.case_seconds
        return False

    def read(self):
        """The records that arrived, and whether the process closed the pipe."""
        data = os.read(self.pipe, 1 << 20)
        *lines, self._rest = (self._rest + data).split(b"\n")
        records = []
        for line in map(json.loads, lines):
            self._wait_anew()
            self._running = line.get("starts")
            if "case" in line:
                self.left.remove(line["case"])
                records.append(line)
        return records, not data

    def finish(self, late):
        """The record of the case that ended the process, or None."""
        if late:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler prints its stack
            time.sleep(0.2)
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        code = os.waitstatus_to_exitcode(status)
        if not self.left or (code == 0 and not self._running):
            return None
        victim = self._running or self.left[0]
        self.left.remove(victim)
        self._output.seek(0)
        printed = self._output.read().decode(errors="replace").split("\nExtension modules:")[0][-3000:]
        how = "took too long" if late else f"ended with {signal.Signals(-code).name if code < 0 else code}"
        result = Result("hung" if late else "crashed", f"the process {how}\n{printed}")
        return _record(victim, dataclasses.asdict(result), 0)


def _sleeps(pid):
    """Whether all threads sleep, so that none waits for the processor."""
    return all(_state(thread) == "S" for thread in Path(f"/proc/{pid}/task").iterdir())


def _state(thread):
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "S"


def _record(id, result, seconds):
    return {"case": id, **result, "seconds": round(seconds, 3)}


def load(journal):
    """The records of a journal by case. An incomplete last line is ignored."""
    records = {}
    if not journal.exists():
        return records
    for line in journal.read_text().splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        records[record["case"]] = record
    return records


def run(ids, execute, journal, limits=None, known=(), progress=lambda record, done: None):
    """Runs execute(id) for each id that is not among the `known` records, and returns the records of all ids."""
    limits = limits or Limits()
    records = {record["case"]: record for record in known if record["case"] in set(ids)}
    todo = [id for id in ids if id not in records]
    waiting = [todo[at : at + limits.shard_size] for at in range(0, len(todo), limits.shard_size)][::-1]
    shards = []
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("w") as file:

        def book(record):
            records[record["case"]] = record
            print(json.dumps(record), file=file, flush=True)
            progress(record, len(records))

        for record in list(records.values()):
            print(json.dumps(record), file=file, flush=True)
        try:
            while waiting or shards:
                while waiting and len(shards) < limits.jobs:
                    shards.append(Shard(waiting.pop(), execute, limits))
                patience = min(shard.deadline for shard in shards) - time.monotonic()
                ready, _, _ = select.select([shard.pipe for shard in shards], [], [], max(0, patience))
                for shard in list(shards):
                    over = False
                    if shard.pipe in ready:
                        arrived, over = shard.read()
                        for record in arrived:
                            book(record)
                    late = not over and shard.is_late()
                    if not over and not late:
                        continue
                    shards.remove(shard)
                    lost = shard.finish(late)
                    if lost:
                        book(lost)
                    if shard.left:
                        waiting.append(shard.left)
        finally:
            for shard in shards:
                os.kill(shard.pid, signal.SIGKILL)
                os.waitpid(shard.pid, 0)
    return records
