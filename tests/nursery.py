"""Runs programs in processes that are born with torch imported and no device used, many times and quickly.

A server, one JSON object per line: {"program", "runs", "at_once", "limit", "status", "environment"} in, {"runs", "failures"} out.
A run is a fork of the server that executes the program as its __main__ and ends the way any Python process ends. It fails if it
does not end within `limit` seconds or with another status than `status` (negative: killed by that signal); each failure has the
number of the run, its status and what it printed. After three failures no more runs are started.

Most of the time that such a process takes to end goes to collecting torch itself. One run in twenty does that; the others collect
what the program made.
"""

import faulthandler
import gc
import json
import os
import select
import signal
import sys
import tempfile
import time


class Run:
    """A child that was started. `is_child` is true in the child itself."""

    def __init__(self, number, request):
        self.number = number
        self.output = tempfile.TemporaryFile()  # noqa: SIM115
        self.end = time.monotonic() + request["limit"]
        self.pid = os.fork()
        self.is_child = self.pid == 0
        if self.is_child:
            with open(os.devnull) as nothing:
                os.dup2(nothing.fileno(), 0)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            os.environ.update(request["environment"])
            signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs are born deaf to it
            faulthandler.enable()
            if number % 20 == 0:
                gc.unfreeze()
            return
        self.handle = os.pidfd_open(self.pid)

    def finish(self):
        """The status, and how the run failed to end if it did not by itself."""
        late = time.monotonic() >= self.end and not select.select([self.handle], [], [], 0)[0]
        if late:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler shows where its threads are
        _, status = os.waitpid(self.pid, 0)
        os.close(self.handle)
        return os.waitstatus_to_exitcode(status), late

    def printed(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")[-4000:]


def run_all(request):
    """The answer; in a child its program instead."""
    started, failures, runs = 0, [], []
    while runs or (started < request["runs"] and len(failures) < 3):
        while len(runs) < request["at_once"] and started < request["runs"] and len(failures) < 3:
            run = Run(started, request)
            if run.is_child:
                return request["program"]
            runs.append(run)
            started += 1
        patience = max(0, min(run.end for run in runs) - time.monotonic())
        ended = select.select([run.handle for run in runs], [], [], patience)[0]
        for run in [run for run in runs if run.handle in ended or time.monotonic() >= run.end]:
            runs.remove(run)
            status, late = run.finish()
            if late or status != request["status"]:
                failures.append({"run": run.number, "status": status, "late": late, "output": run.printed()})
    return {"runs": started, "failures": failures}


def serve():
    """Ends with the program to run in a child, and with None when there are no more requests."""
    import torch

    torch.npu.device_count()  # loads the device library, without a device
    gc.freeze()
    for line in sys.stdin:
        answer = run_all(json.loads(line))
        if isinstance(answer, str):
            # In a forked child torch makes autograd's engine anew at its next use, without a lock: threads that meet there crash
            # or hang, with tensors of the CPU too. A process that was not forked knows nothing of that.
            torch.autograd.Variable._execution_engine.is_checkpoint_valid()
            return answer
        print(json.dumps(answer), flush=True)
    return None


_program = serve()
if _program is not None:
    exec(compile(_program, "<program>", "exec"), globals())
