"""Starts rank processes that run functions of a test file.

    with Ranks(2) as ranks:
        results = ranks.run("tests.distributed.cases", "all_reduce", 3)      # what each rank returned

Each rank is a process with the device of its number and a process group of the backend hccl. An exception of a rank is raised
here with the rank's traceback.
"""

import contextlib
import multiprocessing
import os
import socket
import traceback
from importlib import import_module

TIMEOUT = 240


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _serve(rank, size, port, pipe, environment):
    os.environ.update(environment, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    import torch

    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    while True:
        request = pipe.recv()
        if request is None:
            return
        module, function, arguments = request
        try:
            pipe.send((True, getattr(import_module(module), function)(*arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


class Ranks:
    def __init__(self, size, **environment):
        spawn = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        port = _free_port()
        for rank in range(size):
            here, there = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(rank, size, port, there, environment), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()

    def run(self, module, function, *arguments):
        for pipe in self.pipes:
            pipe.send((module, function, arguments))
        results = []
        for rank, pipe in enumerate(self.pipes):
            assert pipe.poll(TIMEOUT), f"rank {rank} does not answer"
            results.append(pipe.recv())
        failures = [f"rank {rank}:\n{text}" for rank, (passed, text) in enumerate(results) if not passed]
        assert not failures, "\n".join(failures)
        return [value for _, value in results]
