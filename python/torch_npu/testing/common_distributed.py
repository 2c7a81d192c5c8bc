"""Decorators for tests with several processes."""

from __future__ import annotations

import functools
import unittest
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ..distributed import is_hccl_available

_NO_HCCL = "there is no libhccl.so beside the device library"

TestSkip = namedtuple("TestSkip", "exit_code, message")
TestSkip.__test__ = False  # type: ignore[attr-defined]

TEST_SKIPS = {
    "multi-npu": TestSkip(75, "needs several NPUs"),
    **{f"multi-npu-{count}": TestSkip(75, f"needs {count} NPUs") for count in range(1, 9)},
    "hccl": TestSkip(76, _NO_HCCL),
    "known_issues": TestSkip(77, "fails for a known reason"),
}


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a test: it is skipped if there are fewer devices."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def run(*args: Any, **kwargs: Any) -> Any:
            if torch.npu.device_count() < npu_number_needed:
                raise unittest.SkipTest(f"needs {npu_number_needed} NPUs, but there are {torch.npu.device_count()}")
            return func(*args, **kwargs)

        return run

    return decorate


def init_pg(backend: str = "hccl", world_size: int = 1, rank: int = 0, file_name: str = "file://") -> None:
    """Initialises a process group of hccl or gloo with a file as the rendezvous."""
    if backend not in ("hccl", "gloo"):
        raise RuntimeError(f'init_pg: backend must be "hccl" or "gloo", not {backend!r}')
    if backend == "hccl" and not is_hccl_available():
        raise NotImplementedError(f"init_pg: {_NO_HCCL}")
    dist.init_process_group(backend, f"file://{file_name.removeprefix('file://')}", world_size=world_size, rank=rank)
    if backend == "hccl":
        torch.npu.set_device(rank)


def with_comms(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a test of a class with world_size, rank, file_name and destroy_pg: the test runs in a process group.

    The backend is hccl if there are enough devices, else gloo. The test is skipped if it needs HCCL and HCCL is missing."""
    if func is None:
        raise RuntimeError("with_comms decorates a test, not None")

    @functools.wraps(func)
    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        backend = "hccl" if torch.npu.device_count() >= self.world_size else "gloo"
        if backend == "hccl" and not is_hccl_available():
            raise unittest.SkipTest(_NO_HCCL)
        init_pg(backend, self.world_size, self.rank, self.file_name)
        torch.npu.manual_seed(0)
        try:
            func(self, *args, **kwargs)
        finally:
            self.destroy_pg()

    return run
