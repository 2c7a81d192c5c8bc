"""A training step of ResNet-18 under DistributedDataParallel: npu with hccl against the CPU with gloo, in the same processes.

    scripts/bench ddp                           2 ranks, 64x64 images, 16 per rank, one thread per rank
    scripts/bench ddp --ranks 4 --threads 2

The steps run in the order A B B A. The last line is the share of the all-reduces' time before the end of the backward pass,
from events of both streams. The exit status is 1 if the ratio is above its bar.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time

BAR = 0.90
ROUNDS = 8
IMAGES = 16


def _trainer(device):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from bench.models.networks import resnet18

    torch.manual_seed(0)
    model = DistributedDataParallel(resnet18().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(IMAGES, 3, 64, 64).to(device), torch.randint(10, (IMAGES,)).to(device)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    step.model = model
    return step


def _share_beside(step):
    """The share of the all-reduces' time that lies before the end of the backward pass, from events of both streams."""
    import torch
    import torch.distributed as dist

    spans = []

    def hook(state, bucket):
        begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        begin.record()
        future = dist.all_reduce(bucket.buffer().div_(dist.get_world_size(state)), group=state, async_op=True).get_future()

        def note(done):
            end.record()
            return done.value()[0]

        spans.append((begin, end))
        return future.then(note)

    model, parameters = step.model, list(step.model.parameters())
    model.register_comm_hook(model.process_group, hook)
    step()
    spans.clear()
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    last = parameters[0].register_hook(lambda gradient: end.record())  # the first layer's gradient is the last one
    step()
    last.remove()
    torch.npu.synchronize()
    backward_end = start.elapsed_time(end)
    total = beside = 0.0
    for first, last_event in spans:
        begin, finish = start.elapsed_time(first), start.elapsed_time(last_event)
        total += finish - begin
        beside += max(0.0, min(finish, backward_end) - begin)
    return beside / total


def _rank(rank, ranks, threads, folder, answers):
    import torch
    import torch.distributed as dist
    import torch_npu  # noqa: F401

    torch.set_num_threads(threads)
    device = torch.device("npu", rank)
    torch.npu.set_device(device)
    dist.init_process_group("cpu:gloo,npu:hccl", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    sides = {"npu": _trainer(device), "cpu": _trainer(torch.device("cpu"))}
    times = {"npu": [], "cpu": []}

    def timed(side):
        dist.barrier()
        begin = time.perf_counter()
        sides[side]()
        if side == "npu":
            torch.npu.synchronize()
        dist.barrier()
        times[side].append(time.perf_counter() - begin)

    for side in sides:
        for _ in range(2):
            timed(side)
        times[side].clear()
    for round_ in range(ROUNDS):
        for side in ("npu", "cpu", "cpu", "npu") if round_ % 2 == 0 else ("cpu", "npu", "npu", "cpu"):
            timed(side)
    share = _share_beside(sides["npu"])
    if rank == 0:
        answers.put((times, share))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        shared = (options.ranks, options.threads, folder, answers)
        ranks = [context.Process(target=_rank, args=(rank, *shared)) for rank in range(options.ranks)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    if any(process.exitcode for process in ranks):
        return 1
    times, share = answers.get()
    npu, cpu = (statistics.median(times[side]) * 1e3 for side in ("npu", "cpu"))
    verdict = "  MISSED" if npu / cpu > BAR else ""
    print(f"{options.ranks} ranks, {options.threads} threads each, {os.cpu_count()} cores")
    print(f"hccl {npu:.1f} ms, gloo {cpu:.1f} ms, ratio {npu / cpu:.2f}, bar {BAR}{verdict}")
    print(f"all-reduces beside the backward pass: {share:.0%} of their time")
    return 1 if verdict else 0


if __name__ == "__main__":
    sys.exit(main())
