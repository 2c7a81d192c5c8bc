"""Collectives of gloo on CPU tensors, in rank processes that live as long as the benchmark."""

import multiprocessing
import os
import statistics
import tempfile
import time

BATCHES = 9
BATCH_BYTES = 16 << 20  # of a batch at most
BATCH_CALLS = 50


def _calls(name, size, ranks):
    """A function that runs the collective once. `size` is what every rank sends in an all-reduce and has in all in the others."""
    import torch
    import torch.distributed as dist

    whole = torch.zeros(size // 4)
    part = torch.zeros(max(1, size // 4 // ranks))
    parts = list(whole.split(part.numel()))
    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather(parts, part),
        "reduce_scatter": lambda: dist.reduce_scatter(part, parts),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(whole), whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
    }[name]


def _rank(rank, ranks, folder, requests, answers):
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    for name, size in iter(requests.get, None):
        job = _calls(name, size, ranks)
        count = max(2, min(BATCH_CALLS, BATCH_BYTES // (size + 1)))
        times = []
        job()
        for _ in range(BATCHES):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(count):
                job()
            times.append((time.perf_counter() - begin) / count)
        if rank == 0:
            answers.put(statistics.median(times) * 1e6)
    dist.destroy_process_group()


class Gloo:
    """The ranks. measure() returns the microseconds of one call on rank 0."""

    def __init__(self, ranks):
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory()
        self._answers = context.SimpleQueue()
        self._requests = [context.SimpleQueue() for _ in range(ranks)]
        self._processes = [
            context.Process(target=_rank, args=(rank, ranks, self._folder.name, requests, self._answers))
            for rank, requests in enumerate(self._requests)
        ]
        for process in self._processes:
            process.start()

    def measure(self, name, size):
        for requests in self._requests:
            requests.put((name, size))
        while self._answers.empty():
            if not all(process.is_alive() for process in self._processes):
                raise RuntimeError(f"a rank of gloo ended during {name} of {size} bytes")
            time.sleep(0.01)
        return self._answers.get()

    def close(self):
        for requests in self._requests:
            requests.put(None)
        for process in self._processes:
            process.join()
        self._folder.cleanup()
