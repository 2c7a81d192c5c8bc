"""Runs cases in processes that may crash or hang, and keeps a journal.

    records = run(["a", "b"], execute, Path("build/sweep/quick.jsonl"))      # execute("a") gives a Result

The caller has torch imported and has used no device: each shard of cases is a fork of it. A case that crashes or takes too long
costs its process; it is booked as crashed or hung, with what the process printed, and another fork goes on behind it. A process
that computes, or would if the machine let it, has more time than one that sleeps. A shard that has run for long enough makes room
for another, too. The journal has a line of JSON for each finished case.
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
    """The device, which reads these at its first use, writes to a folder of this run: what other processes hold of it, and their
    logs, are none of its business."""
    with tempfile.TemporaryDirectory(prefix="torch_npu_tests") as folder:
        os.environ.setdefault("ASCEND_PROCESS_LOG_PATH", folder)
        os.environ.setdefault("SOFTNPU_LEDGER_DIR", folder)
        yield


def report(wrong, table, begin, file):
    """Prints what is wrong and the table, writes both to `file` if there is one, and gives the status of the command."""
    text = "\n".join([*wrong, "", *table])
    print(text)
    print(f"{len(wrong)} unexpected, {time.monotonic() - begin:.0f} s")
    if file:
        file.write_text(text + "\n")
    return 1 if wrong else 0


@dataclasses.dataclass
class Result:
    """status: passed, failed, or skipped if there was nothing to compare; of the runner itself: crashed and hung."""

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
    patience: int = 5  # times as long as that for a process that does not sleep


class Shard:
    """A process with cases to run. It sends a line before and a line after each of them."""

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
        """The records that arrived, and whether the process closed its end."""
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
        """The record of the case that the process did not survive; None if there is none."""
        if late:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler shows where it was
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
    """Whether all threads wait for something that is not the processor."""
    return all(_state(thread) == "S" for thread in Path(f"/proc/{pid}/task").iterdir())


def _state(thread):
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "S"


def _record(id, result, seconds):
    return {"case": id, **result, "seconds": round(seconds, 3)}


def load(journal):
    """The records of a journal by case. A last line that was cut off is as if it were not there."""
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
    """Runs execute(id) for each id that is not among the `known` records, and gives the records of all ids."""
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
