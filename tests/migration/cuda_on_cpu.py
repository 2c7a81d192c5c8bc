"""Runs CUDA programs on the CPU: the reference of the migrated models. "cuda" means the CPU; cuda streams and events do nothing.

    with cuda_on_cpu():
        runpy.run_path("train.py", run_name="__main__")

torch_npu is not needed and must not be imported: torch.nn.DataParallel chooses the devices of any backend that is loaded.
"""

import contextlib
import time
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode


def on_cpu(value):
    """The CPU in place of a CUDA device; any other value as it is."""
    named = isinstance(value, str) and value.split(":")[0] == "cuda"
    return torch.device("cpu") if named or (isinstance(value, torch.device) and value.type == "cuda") else value


class CudaMeansCpu(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.cuda:
            return args[0]
        kwargs = {name: on_cpu(value) for name, value in (kwargs or {}).items()}
        return function(*map(on_cpu, args), **kwargs)


class Stream:
    def __init__(self, *_, **__):
        pass

    def wait_stream(self, stream):
        pass

    wait_event = record_event = wait_stream

    def synchronize(self):
        pass


class Event(Stream):
    def record(self, stream=None):
        self.time = time.perf_counter()

    def elapsed_time(self, end):
        return (end.time - self.time) * 1000


def load(path, map_location=None, original=torch.load, **options):
    if not callable(map_location):
        map_location = on_cpu(map_location)
    return original(path, map_location=map_location, **options)


@contextlib.contextmanager
def cuda_on_cpu():
    replaced = {
        "Stream": Stream,
        "Event": Event,
        "stream": contextlib.nullcontext,
        "current_stream": Stream,
        "synchronize": lambda device=None: None,
        "set_device": lambda device: None,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: "CPU",
        "FloatTensor": torch.FloatTensor,
        "LongTensor": torch.LongTensor,
    }
    with (
        mock.patch.multiple(torch.cuda, **replaced),
        mock.patch.object(torch, "load", load),
        mock.patch.object(torch.Tensor, "record_stream", lambda tensor, stream: None),
        mock.patch.object(torch.Tensor, "pin_memory", lambda tensor: tensor),
        mock.patch.object(torch.UntypedStorage, "cuda", lambda storage, device=None: storage, create=True),
        CudaMeansCpu(),
    ):
        yield
