"""Tensors of every layout in memory, random tensors, and marks."""

import os

import pytest
import torch

MIB = 1 << 20

# Checked memory is not cached; see test_memory_check.py.
CACHED = os.environ.get("SOFTNPU_MEMORY_CHECK", "none") in ("", "none")
cached = pytest.mark.skipif(not CACHED, reason="SOFTNPU_MEMORY_CHECK is set: memory is not cached")
two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two devices")
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))

# Name -> (shape of the base, function that makes the tensor from the base). The function is applied to a base on either device,
# so that strides and storage offset are equal. All but three tensors have the shape (3, 4, 5).
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


def rand(*shape, seed=0):
    """float64 between -1 and 1, the same in every run."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1


def randn(*shape, seed=0, dtype=torch.float32):
    """Normally distributed numbers, the same in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def needs_torch(major, minor, why):
    """Mark: the test is skipped with an older torch; `why` names what that torch lacks."""
    return pytest.mark.skipif((major, minor) > TORCH, reason=f"torch before {major}.{minor}: {why}")
