"""Random work of many threads on many streams, compared with the same work of one thread on the CPU.

    python tests/device/stress.py --seconds 60
    python tests/device/stress.py --seed 1234 --cases 1     # the case with that seed again

A case consists of rounds. In a round each thread works on its own slots, in an order given by its seed, and chooses a stream for
every step. Events order the steps that touch one slot. After a round each thread passes its slots to the next thread. All values
are small integers, so that results are equal and not only close.
"""

import argparse
import faulthandler
import gc
import random
import sys
import threading
import time
from contextlib import contextmanager, nullcontext

import torch

THREADS = STREAMS = 8
ROUNDS, STEPS = 6, 12
SIZES = [48] * 4 + [64] * 2 + [256] * 2  # sides of the squares in a thread's slots; a launch of the largest is queued


class Slot:
    """A tensor, and the event of the last step that touched it."""

    def __init__(self, side, device):
        self.x = torch.ones(side, side, device=device)
        self.event = None


class Cpu:
    device = "cpu"

    def step(self, *slots):
        return nullcontext()

    def chance(self, rng):
        rng.random()


class Npu:
    device = "npu"

    def __init__(self, seed):
        self.rng = random.Random(seed)  # a second generator, so that values do not depend on it
        self.streams = [torch.npu.Stream(priority=self.rng.choice((0, -1))) for _ in range(STREAMS)]

    @contextmanager
    def step(self, *slots):
        stream = self.rng.choice(self.streams)
        with torch.npu.stream(stream):
            for slot in slots:
                if slot.event is not None:
                    stream.wait_event(slot.event)
                slot.x.record_stream(stream)
            yield
            event = stream.record_event()
            for slot in slots:
                slot.event = event

    def chance(self, rng):
        """Random actions that must not change a result."""
        kind = int(rng.random() * 12)
        if kind == 0:
            self.rng.choice(self.streams).synchronize()
        elif kind == 1:
            torch.npu.synchronize()
        elif kind == 2:
            torch.npu.empty_cache()
        elif kind == 3:
            self.rng.choice(self.streams).wait_stream(self.rng.choice(self.streams))
        elif kind == 4:
            scratch = torch.full((self.rng.randrange(1, 1 << 18),), 7.0, device="npu")
            scratch.record_stream(self.rng.choice(self.streams))
        elif kind == 5:
            self.rng.choice(self.streams).query()


def small(x):
    return torch.remainder(x, 17) - 8


def numbers(rng, side):
    return torch.tensor([rng.randrange(-8, 9) for _ in range(side)], dtype=torch.float32).expand(side, side).contiguous()


def binary(rng, place, a, b, seen):
    function = rng.choice((torch.add, torch.sub, torch.mul, torch.maximum))
    with place.step(a, b):
        a.x = small(function(a.x, b.x))


def in_place(rng, place, a, b, seen):
    with place.step(a, b):
        a.x.add_(b.x, alpha=rng.randrange(1, 4)).remainder_(17).sub_(8)


def matmul(rng, place, a, b, seen):
    with place.step(a, b):
        a.x = small(a.x @ b.x)


def views(rng, place, a, b, seen):
    with place.step(a, b):
        half = a.x.shape[0] // 2
        a.x[:half, 1::2].copy_(b.x.t()[half:, ::2])
        a.x.t()[half:].clamp_(min=rng.randrange(-8, 0))
        a.x = torch.cat([a.x[half:], b.x[:half]]).contiguous()


def choose(rng, place, a, b, seen):
    with place.step(a, b):
        a.x = torch.where(a.x > b.x, a.x, b.x.t())


def number(rng, place, a, b, seen):
    with place.step(a):
        seen.append(a.x.sum().item())


def to_host(rng, place, a, b, seen):
    with place.step(a):
        seen.append(a.x[:, 1::3].to("cpu", torch.int32).sum().item())


def from_host(rng, place, a, b, seen):
    host = numbers(rng, a.x.shape[0])
    pinned = rng.random() < 0.5
    with place.step(a):
        if pinned and place.device == "npu":
            host = host.pin_memory()
        a.x.copy_(host, non_blocking=pinned)


def across(rng, place, a, b, seen):
    with place.step(a, b):
        a.x, b.x = b.x.clone(), a.x


KINDS = [binary, binary, in_place, matmul, views, choose, number, to_host, from_host, across]


def work(rng, place, slots, seen):
    for _ in range(STEPS):
        place.chance(rng)
        a = rng.choice(slots)
        b = rng.choice([slot for slot in slots if slot is not a and slot.x.shape == a.x.shape])
        rng.choice(KINDS)(rng, place, a, b, seen)


def turns(seed):
    """Yields (round, thread, generator). The thread works on the group of slots number thread + round."""
    for round_ in range(ROUNDS):
        for thread in range(THREADS):
            yield round_, thread, random.Random(seed * 1_000_003 + round_ * THREADS + thread)


def new_slots(device):
    return [[Slot(side, device) for side in SIZES] for _ in range(THREADS)]


def model(seed):
    groups, seen = new_slots("cpu"), [[] for _ in range(THREADS)]
    for round_, thread, rng in turns(seed):
        work(rng, Cpu(), groups[(thread + round_) % THREADS], seen[thread])
    return groups, seen


def on_device(seed):
    groups, seen = new_slots("npu"), [[] for _ in range(THREADS)]
    torch.npu.synchronize()
    barrier, errors = threading.Barrier(THREADS), []

    def run(number):
        try:
            place = Npu(seed + number)
            for round_, thread, rng in turns(seed):
                if thread == number:
                    work(rng, place, groups[(thread + round_) % THREADS], seen[thread])
                    barrier.wait()
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    torch.npu.synchronize()
    return groups, seen


def check(seed):
    (expected, expected_seen), (groups, seen) = model(seed), on_device(seed)
    for thread in range(THREADS):
        assert seen[thread] == expected_seen[thread], f"thread {thread} saw other numbers"
        for index in range(len(SIZES)):
            got = groups[thread][index].x.cpu()
            assert torch.equal(got, expected[thread][index].x), f"slot {index} of group {thread} differs"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cases", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    torch.set_num_threads(1)
    end, cases = time.monotonic() + options.seconds, 0
    while cases == 0 or (cases < options.cases and time.monotonic() < end):
        seed = options.seed + cases
        faulthandler.dump_traceback_later(120, exit=True)
        print("seed", seed, flush=True)
        try:
            check(seed)
        except Exception:
            print(f"to see it again: python tests/device/stress.py --cases 1 --seed {seed}", file=sys.stderr)
            raise
        cases += 1
        gc.collect()
        assert torch.npu.memory_allocated() == 0, f"seed {seed}: {torch.npu.memory_allocated()} bytes are still allocated"
    faulthandler.cancel_dump_traceback_later()
    print(cases, "cases")


if __name__ == "__main__":
    main()
