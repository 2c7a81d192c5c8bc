"""Runs a program many times, each time in a forked process that has imported torch and torch_npu and has not used a device.

test_exit.py uses it. It reads requests from stdin, one JSON object per line: {"program", "runs", "at_once", "limit", "status",
"environment"}. It answers {"runs", "failures"}. A run executes the program as __main__ and exits as any Python process does.
It fails if it does not end within `limit` seconds or exits with another status than `status` (negative: killed by that signal).
A failure has the number of the run, its status and its output. After three failures no more runs are started.

Such a process spends most of its exit on the garbage collection of torch itself. Only one run in twenty does that; in the others
torch's objects are frozen (gc.freeze).
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
    """One forked process. `is_child` is true in that process, false in the server."""

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
            signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
            faulthandler.enable()
            if number % 20 == 0:
                gc.unfreeze()
            return
        self.handle = os.pidfd_open(self.pid)

    def finish(self):
        """Waits for the process. Returns its status, and whether it was killed because its time was over."""
        late = time.monotonic() >= self.end and not select.select([self.handle], [], [], 0)[0]
        if late:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler prints the stacks of its threads
        _, status = os.waitpid(self.pid, 0)
        os.close(self.handle)
        return os.waitstatus_to_exitcode(status), late

    def printed(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")[-4000:]


def run_all(request):
    """Returns the answer to the request; in a forked child the program."""
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
    """Answers requests. Returns the program in a forked child, and None in the server at the end of stdin."""
    import torch

    torch.npu.device_count()  # loads the device library and opens no device
    gc.freeze()
    for line in sys.stdin:
        answer = run_all(json.loads(line))
        if isinstance(answer, str):
            # A forked child creates autograd's engine again at its next use, without a lock. Threads that do so at the same time
            # crash or hang, with CPU tensors too. Creating it now gives the program the state of a process that was not forked.
            torch.autograd.Variable._execution_engine.is_checkpoint_valid()
            return answer
        print(json.dumps(answer), flush=True)
    return None


_program = serve()
if _program is not None:
    exec(compile(_program, "<program>", "exec"), globals())
