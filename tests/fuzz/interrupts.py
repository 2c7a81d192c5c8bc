"""Programs that get a SIGINT at a random moment.

A program runs step by step. After KeyboardInterrupt, the interrupted step was done or not: tensors that it writes hold the old or
the new numbers, all others hold those of the model. New tensors are made and overwritten before a wait for the device, which
reveals memory that was released too early. Then the device must work, and all memory must be released.
"""

import os
import random
import signal
import sys
import time

from tests.ops.runner import Result

from . import execute, printing, settings
from .generation import generate
from .program import parts

WAITS = ("graph_delete", "empty_cache", "synchronize", "expect", "host_expect", "new_after_refusal", "capture")
MAKES_TENSORS = ("new", "result", "new_after_refusal", "view")


class Interrupts:
    """Sends SIGINT to this process from another process. While armed, the signal raises KeyboardInterrupt."""

    def __init__(self):
        self.is_armed = self.is_raised = False
        self.is_received = True  # no signal is pending
        signal.signal(signal.SIGINT, self._handle)
        sys.unraisablehook = self._report
        self.reported = []
        read, self._write = os.pipe()
        target = os.getpid()
        if os.fork() == 0:
            os.close(self._write)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with os.fdopen(read) as delays:
                for delay in delays:
                    time.sleep(float(delay))
                    os.kill(target, signal.SIGINT)
            os._exit(0)
        os.close(read)

    def _handle(self, number, frame):
        self.is_received = True
        if self.is_armed:
            self.is_armed, self.is_raised = False, True
            raise KeyboardInterrupt

    def _report(self, unraisable):
        self.reported.append(unraisable.exc_type)

    def arm(self, delay):
        self.is_armed, self.is_raised, self.is_received = True, False, False
        self.reported.clear()
        os.write(self._write, f"{delay}\n".encode())

    def finish(self):
        """Waits until the signal has arrived."""
        self.is_armed = False
        while not self.is_received:
            time.sleep(0.001)


_interrupts = None


def run_seed(seed):
    global _interrupts
    chosen = settings.of_interrupted(seed)
    os.environ.update(chosen.environment)
    if _interrupts is None:
        _interrupts = Interrupts()
    program = generate(seed, chosen.profile)
    space = {"__name__": "program"}
    exec(compile(printing.PRELUDE, "<prelude>", "exec"), space)
    space["torch"].npu.synchronize()
    found = _run(program, space)
    space.clear()
    left = execute.left_behind()
    found = found or left
    if not found:
        return Result("passed", samples=int(_interrupts.is_raised))
    return Result("failed", f"{found}\n{printing.stand_alone(program, chosen.environment)}")


def _run(program, space):
    known = parts(program)
    codes = [compile("\n".join(lines), f"<seed {program.seed}>", "exec") for lines, _ in known]
    under_way = [0]
    _interrupts.is_raised = False
    chosen, delay = _moment(program)
    try:
        try:
            for number, code in enumerate(codes):
                under_way[0] = number
                if number == chosen:
                    _interrupts.arm(delay)
                exec(code, space)
            _interrupts.is_armed = False
        finally:
            _interrupts.finish()
    except KeyboardInterrupt:
        return _check_after(program, known, under_way[0], space)
    except Exception as error:
        return f"{type(error).__name__}: {error}\nin: {known[under_way[0]][0]}; interrupted: {_interrupts.is_raised}"
    if _interrupts.is_raised and KeyboardInterrupt not in _interrupts.reported:
        return "KeyboardInterrupt was lost"
    return None


def _moment(program):
    """A step, and how many seconds after its begin the signal is sent. Steps that wait, and so can be interrupted, come first."""
    rng = random.Random(program.seed)
    waiting = [number for number, step in enumerate(program.steps) if step.kind in WAITS]
    chosen = rng.choice(waiting) if waiting and rng.random() < 0.7 else rng.randrange(len(program.steps))
    return chosen, 10 ** rng.uniform(-4, -1)


def _check_after(program, known, number, space):
    torch = space["torch"]
    lines, after = known[number]
    before = known[number - 1][1] if number > 0 else {}
    step = program.steps[number] if number < len(program.steps) else None
    where = f"after an interrupt in: {lines}"
    try:
        _leave_step(step, space)
        canaries = _canaries(torch)
        torch.npu.synchronize()
    except RuntimeError as error:
        return f"the device does not work {where}: {error}"
    if any(bool((canary != 111).any()) for canary in canaries):
        return f"new memory is overwritten {where}"
    for name in (before.keys() | after.keys()) & space.keys():
        if name in before and name in after:
            allowed = [before[name], after[name]]
        elif name in after and step is not None and step.kind in MAKES_TENSORS:
            allowed = [after[name]]
        else:
            continue  # freed, or undefined without the step
        if not any(_holds(torch, space[name], cells) for cells in allowed):
            return f"{name} holds {space[name].unique().tolist()[:4]} and not {allowed} {where}"
    return None


def _leave_step(step, space):
    """An interrupt inside a `with` block may leave its context active, and one between two lines may leave a capture open."""
    torch = space["torch"]
    space["control"]("faults off")
    torch.npu.set_stream(torch.npu.default_stream())
    if step is not None and step.kind == "capture" and step.args[0] in space:
        space[step.args[0]].reset()


def _canaries(torch):
    """Allocates released memory and writes it on a stream that waits for nothing."""
    with torch.npu.stream(torch.npu.Stream()):
        return [torch.full((count,), 111, dtype=torch.int32, device="npu") for count in [262144] * 6 + [320_000] * 2]


def _holds(torch, tensor, cells):
    got = tensor.cpu().view(len(cells), -1)
    return bool((got == torch.tensor(cells, dtype=torch.int32)[:, None]).all())
