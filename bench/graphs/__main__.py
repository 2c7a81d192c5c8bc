"""What the replay of a captured training step costs, against the same step without a graph and against its kernels alone.

    scripts/bench graphs [--threads 1 2]

- calling thread: seconds until the call of replay() has returned, as a ratio to the seconds until the eager step has returned
- total: seconds until the device has finished, as a ratio to the sum of the durations of its kernels in a profile
"""

import argparse
import os
import statistics
import sys
import time

import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from bench.measure import Side, interleave
from bench.models.__main__ import NETWORKS

CALLING_BAR, TOTAL_BAR = 0.05, 1.05


def _mlp():
    layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(8)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(256, 10))


# Name -> the network and its data.
STEPS = {
    "MLP of 9 layers": (_mlp, lambda: (torch.rand(64, 256), torch.arange(64) % 10)),
    **{name: NETWORKS[name][:2] for name in ("GPT", "ResNet-18")},
}


def make_step(name):
    torch.manual_seed(0)
    network, data = STEPS[name]
    model = network().to("npu")
    inputs, targets = (tensor.to("npu") for tensor in data())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()

    return step


def capture(step):
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.stream(stream):
        for _ in range(3):
            step()
    torch.npu.synchronize()
    with torch.npu.graph(graph):
        step()
    graph.step = step  # keeps the tensors that the graph uses
    return graph.replay


def seconds_of_kernels(job):
    """The sum of the durations of the kernels of one job: the median of five."""
    sums = []
    for _ in range(5):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as recorded:
            job()
            torch.npu.synchronize()
        kernels = [event for event in recorded.events() if event.device_type == DeviceType.PrivateUse1]
        sums.append(sum(event.time_range.elapsed_us() for event in kernels) / 1e6)
    return statistics.median(sums)


def measure(name, threads, rounds):
    """Prints a line; returns whether a bar is missed."""
    eager, replay = make_step(name), capture(make_step(name))
    wait = torch.npu.synchronize
    calling = statistics.median(
        one / other for one, other in zip(*(_returned(job, wait, rounds) for job in (replay, eager)), strict=True)
    )
    pairs = interleave(Side(eager, wait), Side(replay, wait), rounds, 3)
    seconds = statistics.median(replayed for replayed, _ in pairs)
    total = seconds / seconds_of_kernels(replay)
    against_eager = statistics.median(replayed / stepped for replayed, stepped in pairs)
    missed = calling > CALLING_BAR or total > TOTAL_BAR
    print(
        f"{name:16} {threads} threads  calling thread {calling:5.3f} (bar {CALLING_BAR})  total {total:5.2f} of its kernels "
        f"(bar {TOTAL_BAR}), {against_eager:4.2f} of the eager step{'  MISSED' if missed else ''}",
        flush=True,
    )
    return missed


def _returned(job, wait, rounds):
    """Seconds until a call returns, on an idle device."""
    seconds = []
    for _ in range(rounds):
        wait()
        begin = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - begin)
    wait()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, torch {torch.__version__}")
    missed = False
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name in STEPS:
            missed |= measure(name, threads, options.rounds)
    sys.exit(missed)


if __name__ == "__main__":
    main()
