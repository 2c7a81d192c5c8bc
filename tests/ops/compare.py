"""Describes the difference between a result of npu and one of the CPU as a sentence; None if they agree."""

import dataclasses
from collections.abc import Mapping

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo

# (rtol, atol): those of assert_close, wider for the halves, whose kernels may round between their steps.
DEFAULT = {
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (2e-2, 8e-3),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}


@dataclasses.dataclass
class Tolerance:
    """How far values may differ. values=False: only dtype, shape and device are compared. strides=True: strides too.
    versions=True: version counters too; resizes=True: the call may resize its results; new=True: it makes them."""

    overrides: dict = dataclasses.field(default_factory=dict)
    values: bool = True
    strides: bool = False
    versions: bool = False
    resizes: bool = False
    new: bool = False

    @staticmethod
    def of(info):
        """The tolerances that the database gives the entry in tests of all entries."""
        overrides = {}
        for decorate in info.decorators:
            if not isinstance(decorate, DecorateInfo) or decorate.cls_name not in (None, "TestCommon", "TestModule"):
                continue
            if decorate.device_type not in (None, "cpu") or decorate.active_if is not True:
                continue
            for grant in decorate.decorators:
                if isinstance(grant, toleranceOverride):
                    for dtype, (atol, rtol) in grant.d.items():
                        known = overrides.get(dtype, (0, 0))
                        overrides[dtype] = (max(rtol, known[0]), max(atol, known[1]))
        return Tolerance(overrides)

    def pair(self, dtype):
        rtol, atol = DEFAULT.get(dtype, (0, 0))
        more = self.overrides.get(dtype, (0, 0))
        return {"rtol": max(rtol, more[0]), "atol": max(atol, more[1])}


def difference(npu, cpu, tolerance, where="result", device="npu"):
    """Compares nested tuples, lists, dictionaries, tensors and plain values. `device`: the required device of npu's tensors."""
    if isinstance(cpu, torch.Tensor):
        if not isinstance(npu, torch.Tensor):
            return f"{where}: {type(npu).__name__} instead of a tensor"
        return _tensor_difference(npu, cpu, tolerance, where, device)
    if type(npu) is not type(cpu):
        return f"{where}: {type(npu).__name__} instead of {type(cpu).__name__}"
    if isinstance(cpu, Mapping):
        if list(npu) != list(cpu):
            return f"{where}: keys {list(npu)} instead of {list(cpu)}"
        npu, cpu = list(npu.values()), list(cpu.values())
    if isinstance(cpu, (tuple, list)):
        if len(npu) != len(cpu):
            return f"{where}: {len(npu)} items instead of {len(cpu)}"
        found = (difference(a, b, tolerance, f"{where}[{i}]", device) for i, (a, b) in enumerate(zip(npu, cpu, strict=True)))
        return next((text for text in found if text), None)
    if isinstance(cpu, (bool, int, float, complex)) and tolerance.values:
        return _value_difference(torch.tensor(npu), torch.tensor(cpu), Tolerance(), where)
    return None


def _tensor_difference(npu, cpu, tolerance, where, device):
    for name, got, wanted in (
        ("dtype", npu.dtype, cpu.dtype),
        ("layout", npu.layout, cpu.layout),
        ("dimensions", npu.dim(), cpu.dim()),
        ("device", npu.device.type, device if cpu.device.type == "cpu" else cpu.device.type),
    ):
        if got != wanted:
            return f"{where}: {name} {got} instead of {wanted}"
    if cpu.is_nested:
        return difference(npu.unbind(), cpu.unbind(), tolerance, where, device)
    if npu.shape != cpu.shape:
        return f"{where}: shape {tuple(npu.shape)} instead of {tuple(cpu.shape)}"
    if tolerance.strides and cpu.layout == torch.strided and _strides(npu) != _strides(cpu):
        return f"{where}: strides {npu.stride()} instead of {cpu.stride()} of shape {tuple(cpu.shape)}"
    if cpu.device.type == "meta" or not tolerance.values:
        return None
    return _value_difference(npu.detach().cpu(), cpu.detach(), tolerance, where)


def _strides(tensor):
    """The strides of dimensions with more than one element."""
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _value_difference(npu, cpu, tolerance, where):
    try:
        torch.testing.assert_close(npu, cpu, **tolerance.pair(cpu.dtype), equal_nan=True, check_stride=False)
    except AssertionError as error:
        return f"{where}: {str(error).strip()}"
    return None
