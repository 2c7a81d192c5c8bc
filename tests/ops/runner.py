"""Runs cases in processes that may crash or hang, and keeps a journal.

    journal = run(cases, lambda case: case.run(), Path("build/sweep/quick.jsonl"), jobs=2)

The process that calls has torch imported and has used no device: each shard of cases is a fork of it. A shard ends early when it
crashes, when one of its cases takes too long, or when all of it does; the case that ran then is booked as crashed or hung, and
another fork goes on behind it. Whatever a shard prints is shown with the case that crashed.
"""

import dataclasses
import faulthandler
import json
import os
import select
import signal
import sys
import tempfile
import time

from .cases import Result


class Shard:
    """A process with cases to run. It sends one line before and one after each of them."""

    def __init__(self, ids, execute, case_seconds, shard_seconds):
        self.left = list(ids)
        self.running = None
        self._limit = case_seconds
        self._end = time.monotonic() + shard_seconds
        self._case_end = time.monotonic() + case_seconds
        self._rest = b""
        self.output = tempfile.TemporaryFile()  # noqa: SIM115
        self.pipe, write = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            self._work(execute, write)
        os.close(write)

    def _work(self, execute, pipe):
        try:
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            faulthandler.enable(all_threads=False)
            with os.fdopen(pipe, "w") as stream:
                for id in self.left:
                    print(json.dumps({"starts": id}), file=stream, flush=True)
                    begin = time.process_time()
                    result = dataclasses.asdict(execute(id))
                    result["seconds"] = round(time.process_time() - begin, 3)
                    print(json.dumps({"case": id, **result}), file=stream, flush=True)
        finally:
            os._exit(0)

    def deadline(self):
        return min(self._end, self._case_end)

    def read(self):
        """The records that arrived, and whether the process closed its end."""
        data = os.read(self.pipe, 1 << 20)
        *lines, self._rest = (self._rest + data).split(b"\n")
        records = []
        for line in map(json.loads, lines):
            self._case_end = time.monotonic() + self._limit
            if "starts" in line:
                self.running = line["starts"]
                continue
            self.left.remove(line["case"])
            self.running = None
            records.append(line)
        return records, not data

    def finish(self, late):
        """The record of the case that the process did not survive; None if it came to its end."""
        if late:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler shows where it was
            time.sleep(0.2)
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        if not self.left:
            return None
        self.output.seek(0)
        printed = self.output.read().decode(errors="replace")[-3000:]
        victim = self.running or self.left[0]
        self.left.remove(victim)
        code = os.waitstatus_to_exitcode(status)
        how = "took too long" if late else f"ended with {signal.Signals(-code).name if code < 0 else code}"
        return {
            "case": victim,
            **dataclasses.asdict(Result("hung" if late else "crashed", f"the process {how}\n{printed}")),
            "seconds": 0,
        }


def load(journal):
    """The records of a journal by case. A last line that was cut off is as if it were not there."""
    records = {}
    if journal.exists():
        for line in journal.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            records[record["case"]] = record
    return records


def save(journal, records):
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))


def run(ids, execute, journal, jobs=2, shard_size=100, case_seconds=60, shard_seconds=1800, resume=False, progress=None):
    """Runs execute(id) for each id, at most `jobs` at a time, and gives all records by id."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    records = load(journal) if resume else {}
    records = {id: records[id] for id in ids if id in records}
    todo = [id for id in ids if id not in records]
    waiting = [todo[at : at + shard_size] for at in range(0, len(todo), shard_size)][::-1]
    shards = {}
    with journal.open("a" if resume else "w") as file:

        def book(record):
            records[record["case"]] = record
            print(json.dumps(record), file=file, flush=True)
            if progress:
                progress(record, len(records), len(ids))

        try:
            while waiting or shards:
                while waiting and len(shards) < jobs:
                    shard = Shard(waiting.pop(), execute, case_seconds, shard_seconds)
                    shards[shard.pipe] = shard
                limit = max(0, min(shard.deadline() for shard in shards.values()) - time.monotonic())
                ready, _, _ = select.select(list(shards), [], [], limit)
                for pipe in list(shards):
                    shard, over = shards[pipe], False
                    if pipe in ready:
                        done, over = shard.read()
                        for record in done:
                            book(record)
                    late = not over and time.monotonic() >= shard.deadline()
                    if not over and not late:
                        continue
                    del shards[pipe]
                    lost = shard.finish(late)
                    if lost:
                        book(lost)
                    if shard.left:
                        waiting.append(shard.left)
        finally:
            for shard in shards.values():
                os.kill(shard.pid, signal.SIGKILL)
                os.waitpid(shard.pid, 0)
    return records
