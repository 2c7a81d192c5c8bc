"""The moves between devices that torch.nn.DataParallel is made of. torch has them for CUDA only, in torch._C.

    torch.nn.DataParallel(model.npu())(batch)     # a part of the batch on each NPU of this process

Tensors of other devices go to torch's own functions, where there are any."""

import contextlib
import functools

import torch


def install():
    for name, function in _FUNCTIONS.items():
        setattr(torch._C, name, _beside(getattr(torch._C, name, None), function))


def _broadcast(tensor, devices):
    return [tensor.to(_device(each), non_blocking=True) for each in devices]


def _broadcast_coalesced(tensors, devices, buffer_size):
    return [[tensor.to(_device(each), non_blocking=True) for tensor in tensors] for each in devices]


def _broadcast_out(tensor, out):
    return [each.copy_(tensor, non_blocking=True) for each in out]


def _scatter(tensor, devices, chunk_sizes=None, dim=0, streams=None):
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    moved = []
    for index, (chunk, each) in enumerate(zip(chunks, devices, strict=False)):
        with _on(streams, index):
            moved.append(chunk.contiguous().to(_device(each), non_blocking=True))
    return moved


def _scatter_out(tensor, out, dim=0, streams=None):
    for index, (chunk, each) in enumerate(zip(tensor.split([each.size(dim) for each in out], dim), out, strict=True)):
        with _on(streams, index):
            each.copy_(chunk, non_blocking=True)
    return out


def _gather(tensors, dim, destination_index=None):
    there = torch.device("cpu") if destination_index == -1 else _device(destination_index)
    return torch.cat([tensor.to(there, non_blocking=there.type != "cpu") for tensor in tensors], dim)


def _gather_out(tensors, out, dim):
    return torch.cat([tensor.to(out.device) for tensor in tensors], dim, out=out)


def _device(device):
    if isinstance(device, torch.device):
        return device
    return torch.device("npu", torch.npu.current_device() if device is None else device)


def _on(streams, index):
    return contextlib.nullcontext() if streams is None or streams[index] is None else streams[index]


def _beside(original, function):
    if original is None:
        return function

    @functools.wraps(original)
    def choose(first, *args, **kwargs):
        tensor = first[0] if isinstance(first, (list, tuple)) else first
        on_npu = tensor.is_npu or (not tensor.is_cuda and torch.accelerator.current_accelerator().type == "npu")
        return (function if on_npu else original)(first, *args, **kwargs)

    return choose


_FUNCTIONS = {
    each.__name__: each
    for each in (_broadcast, _broadcast_coalesced, _broadcast_out, _scatter, _scatter_out, _gather, _gather_out)
}
