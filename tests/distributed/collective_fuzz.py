"""Random sequences of collectives, compared with the model. `python -m tests.distributed.collective_fuzz --seed 7 --world 4`

A program is a list of steps, the same on all ranks. A step is one collective on a random group, stream, dtype and size. Kernels
of the stream make its inputs, sometimes late. It is synchronous, or waited for some steps later on another stream. Inputs of an
asynchronous collective may be freed at once, and their memory filled with other values. Kernels of the stream that waited copy
the results.
"""

import argparse
import contextlib
import random
import sys
from dataclasses import asdict, dataclass

import torch

from tests.distributed.layouts import LAYOUTS, group
from tests.distributed.modes import MODES, allowed, setting
from tests.distributed.operations import GUARD, OPERATIONS, Call, Everybody, check
from tests.distributed.rank_processes import RankSets

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.float64)
COUNTS = (0, 1, 3, 100, 1025, 5000, 9001, 40003)
STREAMS = 3
LATE_SIZE = 192  # of the square matrices whose products keep a stream busy


@dataclass(frozen=True)
class Step:
    operation: str
    layout: str
    dtype: torch.dtype
    count: int
    reduction: str
    root: int
    stream: int
    late: bool
    asynchronous: bool
    frees: bool
    wait_after: int
    wait_stream: int
    seed: int


def program(seed, length, backend, elsewhere=False):
    """The steps of a seed. elsewhere: freed inputs are also waited for on another stream than that of their memory."""
    choice = random.Random(f"{seed} {backend}")
    mode = next(mode for mode in MODES.values() if mode.backend == backend)
    dtypes = [dtype for dtype in DTYPES if dtype not in mode.lacks]
    steps = []
    for number in range(length):
        name = choice.choice([name for name in OPERATIONS if name not in mode.lacks])
        dtype = choice.choice(dtypes)
        reductions = [each for each in ("sum", "max", "min", "product") if allowed(each, dtype)]
        asynchronous = choice.random() < 0.6
        frees = asynchronous and choice.random() < 0.5
        stream, wait_stream = choice.randrange(STREAMS), choice.randrange(STREAMS)
        steps.append(
            Step(
                operation=name,
                layout=choice.choice(LAYOUTS),
                dtype=dtype,
                count=choice.choice(COUNTS),
                reduction=choice.choice(reductions) if OPERATIONS[name].reduces else "sum",
                root=choice.randrange(100),
                stream=stream,
                late=choice.random() < 0.3,
                asynchronous=asynchronous,
                frees=frees,
                wait_after=choice.randrange(4),
                wait_stream=stream if frees and not elsewhere else wait_stream,
                seed=1000 * seed + number,
            )
        )
    return steps


class Execution:
    """One program on one rank."""

    def __init__(self, rank):
        self.rank = rank
        self.on_npu = rank.device.type == "npu"
        self.streams = [torch.npu.Stream() if self.on_npu else None for _ in range(STREAMS)]
        self.waiting = []  # (number of the step after which it is waited for, step, call, work, outputs, expected)
        self.results = []  # (step, call, copies of the outputs, expected outputs)

    def on(self, number):
        return torch.npu.stream(self.streams[number]) if self.on_npu else contextlib.nullcontext()

    def launch(self, number, step):
        mine = group(self.rank, step.layout)
        operation = OPERATIONS[step.operation]
        if mine is None or (mine[2] == 1 and not operation.alone):
            return
        call = Call(*mine, self.rank.device, step.dtype, step.count, step.reduction)
        call.root, call.asynchronous, call.seed = step.root % call.size, step.asynchronous, step.seed
        everybody = Everybody(operation, call)
        with self.on(step.stream):
            tensors = [self.make(call, tensor, step.late) for tensor in everybody[call.rank]]
            before = len(call.buffers)
            work, outputs = operation.launch(call, tensors)
            if step.frees and not any(output is tensor for output in outputs for tensor in tensors):
                sizes = [tensor.numel() + 2 * GUARD for tensor in tensors]
                del call.buffers[:before], tensors
                for size in sizes * 2:
                    torch.full((size,), 55, device=call.device).to(call.dtype)
        waited_after = number + step.wait_after if step.asynchronous else number
        self.waiting.append((waited_after, step, call, work, outputs, operation.expected(call, everybody)[call.rank]))

    def make(self, call, tensor, late):
        """The tensor on the device, written by a kernel of the current stream."""
        result = call.output(tensor.numel())
        host = tensor.to(call.device)
        if late and self.on_npu:
            square = torch.ones(LATE_SIZE, LATE_SIZE, device=call.device)
            for _ in range(4):
                square = square @ square / LATE_SIZE
        result.copy_(host)
        return result

    def wait(self, now):
        """Waits for the works whose time has come."""
        for entry in [entry for entry in self.waiting if entry[0] <= now]:
            self.waiting.remove(entry)
            _, step, call, work, outputs, expected = entry
            with self.on(step.wait_stream if step.asynchronous else step.stream):
                if work is not None:
                    work.wait()
                self.results.append((step, call, [output.clone() for output in outputs], expected))

    def compare(self):
        if self.on_npu:
            torch.npu.synchronize()
        for step, call, outputs, expected in self.results:
            try:
                if expected is not None:
                    check(outputs, expected)
                call.read()
            except AssertionError as error:
                raise AssertionError(f"{step}: {error}") from error


def run_program(rank, seed, length, elsewhere):
    """Runs on a rank: the program of a seed."""
    execution = Execution(rank)
    for number, step in enumerate(program(seed, length, rank.setting.backend, elsewhere)):
        execution.launch(number, step)
        execution.wait(number)
    execution.wait(length + 100)
    execution.compare()
    return len(execution.results)


def fuzz(rank_sets, mode, world, seeds, length=30, environment=(), elsewhere=False):
    """Runs the programs of some seeds on one set of ranks. The first failure raises with the command that repeats it."""
    for seed in seeds:
        try:
            done = rank_sets.get(setting(mode, world, environment)).run(run_program, seed, length, elsewhere)
        except AssertionError as error:
            variables = "".join(f"{name}={value} " for name, value in environment)
            command = f"{variables}python -m tests.distributed.collective_fuzz"
            where = f"--mode {mode} --world {world} --length {length}{' --elsewhere' if elsewhere else ''}"
            raise AssertionError(f"repeat it by: {command} --seed {seed} {where}\n{error}") from error
        assert sum(done) > 0


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.distributed.collective_fuzz", description="Random collectives.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="number of seeds")
    parser.add_argument("--world", type=int, default=4, metavar="N", help="number of ranks")
    parser.add_argument("--mode", choices=MODES, default="hccl", help="backend and way of the data")
    parser.add_argument("--length", type=int, default=30, metavar="N", help="steps of a program")
    parser.add_argument("--elsewhere", action="store_true", help="also wait on another stream for freed inputs")
    parser.add_argument("--print", action="store_true", help="print the steps and do not run them")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    if options.print:
        for seed in seeds:
            for step in program(seed, options.length, MODES[options.mode].backend, options.elsewhere):
                print(" ".join(f"{name}={value}" for name, value in asdict(step).items()))
        return 0
    sets = RankSets()
    with contextlib.closing(sets):
        fuzz(sets, options.mode, options.world, seeds, options.length, elsewhere=options.elsewhere)
    print(f"{len(seeds)} programs passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
