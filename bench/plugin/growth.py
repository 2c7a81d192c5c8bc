"""The cost of an operator as a function of the number of live blocks, streams, devices and threads.

    scripts/bench growth                  all of it
    scripts/bench growth --json FILE      also writes the numbers there

Times are of `a + b`, 64x64, on npu, per call; a row is flat if its last time is about its first. Threads share the interpreter's
lock and two cores, so their row has the CPU's beside it.
"""

import argparse
import json
import statistics
import threading
import time

import torch
import torch_npu  # noqa: F401

CALLS = 400
ROUNDS = 15


def pair(device="npu"):
    return torch.rand(64, 64).to(device), torch.rand(64, 64).to(device)


def microseconds(operands, calls=CALLS):
    """Median over rounds of the time per call, each round going through all operands."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(calls // len(operands)):
            for a, b in operands:
                a + b
        torch.npu.synchronize()
        rounds.append((time.perf_counter() - begin) / (calls // len(operands) * len(operands)))
    return statistics.median(rounds) * 1e6


def by_blocks():
    operands, kept = [pair()], []
    for count in (10, 100, 1000, 10_000, 100_000, 1_000_000):
        kept += [torch.empty(1, device="npu") for _ in range(count - len(kept))]
        yield count, microseconds(operands)


def by_streams():
    operands = pair()
    for count in (1, 2, 4, 8, 16, 32, 64):
        streams = [torch.npu.Stream(priority=-(index % 2)) for index in range(count)]
        torch.npu.synchronize()
        rounds = []
        for _ in range(ROUNDS):
            seconds = 0
            for stream in streams:
                with torch.npu.stream(stream):
                    begin = time.perf_counter()
                    for _ in range(CALLS // count):
                        operands[0] + operands[1]
                    seconds += time.perf_counter() - begin
            rounds.append(seconds / (CALLS // count * count))
        torch.npu.synchronize()
        yield count, statistics.median(rounds) * 1e6


def by_devices():
    for count in range(1, torch.npu.device_count() + 1):
        operands = [pair(f"npu:{index}") for index in range(count)]
        yield count, microseconds(operands)


def by_threads(device):
    for count in (1, 2, 4, 8, 16):
        operands = [pair(device) for _ in range(count)]
        rounds = []
        for _ in range(ROUNDS):
            gate = threading.Barrier(count + 1)

            def work(a, b, gate=gate, calls=CALLS // count):
                gate.wait()
                for _ in range(calls):
                    a + b
                gate.wait()

            threads = [threading.Thread(target=work, args=one) for one in operands]
            for thread in threads:
                thread.start()
            gate.wait()
            begin = time.perf_counter()
            gate.wait()
            torch.npu.synchronize()
            rounds.append((time.perf_counter() - begin) / (CALLS // count * count))
            for thread in threads:
                thread.join()
        yield count, statistics.median(rounds) * 1e6


ROWS = {
    "live blocks": by_blocks,
    "streams": by_streams,
    "devices": by_devices,
    "threads": lambda: by_threads("npu"),
    "threads, CPU": lambda: by_threads("cpu"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    with torch.no_grad():
        for name, measure in ROWS.items():
            results[name] = dict(measure())
            print(f"{name:14}" + "".join(f"  {count}: {time:.2f}" for count, time in results[name].items()) + "   us", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
