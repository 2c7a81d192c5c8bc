"""broadcast, scatter and gather between devices for torch.nn.DataParallel. torch has them for CUDA only, in torch._C.

    torch.nn.DataParallel(model.npu())(batch)     # a part of the batch on each NPU of this process

Calls with tensors of other devices go to torch's own functions, if torch was built with them."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

_has_advised = False


def install() -> None:
    torch.nn.DataParallel.__init__ = _advising(torch.nn.DataParallel.__init__)
    for name, function in _FUNCTIONS.items():
        setattr(torch._C, name, _beside(getattr(torch._C, name, None), function))


def _broadcast(tensor: torch.Tensor, devices: Sequence[Any]) -> list[torch.Tensor]:
    return [tensor.to(_device(each), non_blocking=True) for each in devices]


def _broadcast_coalesced(tensors: Sequence[torch.Tensor], devices: Sequence[Any], buffer_size: int) -> list[list[torch.Tensor]]:
    return [[tensor.to(_device(each), non_blocking=True) for tensor in tensors] for each in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [each.copy_(tensor, non_blocking=True) for each in out]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[Any],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
) -> list[torch.Tensor]:
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    moved = []
    for index, (chunk, each) in enumerate(zip(chunks, devices, strict=False)):
        with _on(streams, index):
            moved.append(chunk.contiguous().to(_device(each), non_blocking=True))
    return moved


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int = 0, streams: Sequence[Any] | None = None
) -> Sequence[torch.Tensor]:
    for index, (chunk, each) in enumerate(zip(tensor.split([each.size(dim) for each in out], dim), out, strict=True)):
        with _on(streams, index):
            each.copy_(chunk, non_blocking=True)
    return out


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination_index: int | None = None) -> torch.Tensor:
    there = torch.device("cpu") if destination_index == -1 else _device(destination_index)
    return torch.cat([tensor.to(there, non_blocking=there.type != "cpu") for tensor in tensors], dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cat([tensor.to(out.device) for tensor in tensors], dim, out=out)


def _device(device: Any) -> torch.device:
    if isinstance(device, torch.device):
        return device
    return torch.device("npu", torch.npu.current_device() if device is None else device)


def _on(streams: Sequence[Any] | None, index: int) -> AbstractContextManager[Any]:
    return contextlib.nullcontext() if streams is None or streams[index] is None else streams[index]


def _advising(init: Callable[..., None]) -> Callable[..., None]:
    """Wraps the constructor of DataParallel: for modules on npu it names the faster way, once per process."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        global _has_advised
        if not _has_advised and getattr(self, "device_ids", None) and self.src_device_obj.type == "npu":
            _has_advised = True
            warnings.warn(
                "torch.nn.DataParallel copies the model to every NPU in each step, from one process. "
                "torch.nn.parallel.DistributedDataParallel with one process per NPU is faster: see docs/distributed.md",
                stacklevel=2,
            )

    return __init__


def _beside(original: Callable[..., Any] | None, function: Callable[..., Any]) -> Callable[..., Any]:
    if original is None:
        return function

    @functools.wraps(original)
    def choose(first: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = first[0] if isinstance(first, (list, tuple)) else first
        on_npu = tensor.is_npu or (not tensor.is_cuda and torch.accelerator.current_accelerator().type == "npu")
        return (function if on_npu else original)(first, *args, **kwargs)

    return choose


_FUNCTIONS = {
    each.__name__: each
    for each in (_broadcast, _broadcast_coalesced, _broadcast_out, _scatter, _scatter_out, _gather, _gather_out)
}
