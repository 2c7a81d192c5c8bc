"""Ways to lay a tensor out in memory, comparison of npu with the CPU, a gate that holds a stream, and marks."""

import os

import pytest
import torch
from gate import Gate  # noqa: F401

MIB = 1 << 20

# Checked memory is not cached; see test_memory_check.py.
CACHED = os.environ.get("SOFTNPU_MEMORY_CHECK", "none") in ("", "none")
cached = pytest.mark.skipif(not CACHED, reason="SOFTNPU_MEMORY_CHECK is set: memory is not cached")
two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two devices")
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))

# Name -> (shape of the base, what makes the tensor from it). The same is done to a base on either device, so that the strides and
# the storage offset are the same too. All but three have the shape (3, 4, 5).
LAYOUTS = {
    "contiguous": ((3, 4, 5), lambda base: base),
    "transposed": ((5, 4, 3), lambda base: base.transpose(0, 2)),
    "sliced": ((4, 4, 11), lambda base: base[1:, :, 1::2]),
    "expanded": ((3, 1, 5), lambda base: base.expand(3, 4, 5)),
    "permuted": ((4, 5, 3), lambda base: base.permute(2, 0, 1)),
    "zero_dim": ((), lambda base: base),
    "empty": ((3, 0, 5), lambda base: base),
    "channels_last": ((2, 3, 4, 5), lambda base: base.contiguous(memory_format=torch.channels_last)),
}
# An expanded tensor cannot be written.
WRITABLE = [name for name in LAYOUTS if name != "expanded"]


def base(layout, dtype=torch.float32, seed=0):
    """The base on the CPU, with values between -3 and 3."""
    generator = torch.Generator().manual_seed(seed)
    shape = LAYOUTS[layout][0]
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point and not dtype.is_complex:
        low = 0 if dtype == torch.uint8 else -3
        return torch.randint(low, 4, shape, generator=generator).to(dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.double) * 6 - 3).to(dtype)


def pair(layout, dtype=torch.float32, seed=0):
    """The same tensor on the CPU and on npu, with the same strides and offset."""
    view = LAYOUTS[layout][1]
    host = base(layout, dtype, seed)
    cpu, npu = view(host), view(host.to("npu"))
    assert (npu.shape, npu.stride(), npu.storage_offset()) == (cpu.shape, cpu.stride(), cpu.storage_offset())
    return cpu, npu


def assert_same(npu, cpu, rtol=1e-4, atol=1e-5, strides=True):
    """npu holds what cpu holds, on the device: dtype, shape, strides and, within the tolerance, values."""
    if isinstance(cpu, tuple | list):
        assert len(npu) == len(cpu)
        for one, other in zip(npu, cpu, strict=True):
            assert_same(one, other, rtol, atol, strides)
        return
    if not isinstance(cpu, torch.Tensor):
        assert npu == cpu
        return
    assert npu.device.type == "npu"
    assert (npu.dtype, npu.shape) == (cpu.dtype, cpu.shape)
    if strides and cpu.numel() > 0:
        assert npu.stride() == cpu.stride()
    torch.testing.assert_close(npu.detach().cpu(), cpu.detach(), rtol=rtol, atol=atol, equal_nan=True)


def needs_torch(major, minor, why):
    """Mark: skipped with a torch that is older; why says what that one lacks."""
    return pytest.mark.skipif((major, minor) > TORCH, reason=f"torch before {major}.{minor}: {why}")


def on_both(function, rtol=1e-4, atol=1e-5):
    """What function("cpu") gives, after function("npu") gave the same: tensors, or trees of them. Both start from one seed."""
    results = []
    for device in ("cpu", "npu"):
        torch.manual_seed(0)
        results.append(torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.detach().cpu(), function(device)))
    cpu, npu = results
    torch.testing.assert_close(npu, cpu, rtol=rtol, atol=atol, equal_nan=True)
    return cpu
