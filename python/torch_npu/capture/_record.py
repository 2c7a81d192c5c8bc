"""Record: one captured call. TensorValue: one of its tensors."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch


@dataclasses.dataclass
class TensorValue:
    data: torch.Tensor | None  # contiguous, on the CPU; None in statistics mode, or if `missing` gives a reason
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    device_type: str
    device_code: int  # torch's number of the device type
    statistics: dict[str, float] | None = None  # Max, Min, Mean, Norm
    missing: str = ""
    requires_grad: bool = False

    @classmethod
    def of(cls, captured: Any) -> TensorValue:
        numbers = captured.statistics
        statistics = None if numbers is None else dict(zip(("Max", "Min", "Mean", "Norm"), numbers, strict=True))
        return cls(
            captured.data,
            captured.dtype,
            tuple(captured.shape),
            tuple(captured.stride),
            captured.device_type,
            captured.device_code,
            statistics,
            captured.missing,
            captured.requires_grad,
        )


@dataclasses.dataclass
class Record:
    name: str  # "linear", "AddmmBackward0"
    sequence: int
    backward: bool
    module: str  # qualified name; empty if unknown
    line: str  # "train.py:12 in step" for forward calls; empty if unknown
    inputs: dict[str, Any]  # TensorValue, a list of them, or a Python object
    outputs: dict[str, Any]
    types: dict[str, str]  # types of the inputs in the schema, such as "Tensor?" and "int[]"

    @classmethod
    def of(cls, entry: tuple[Any, ...]) -> Record:
        name, sequence, backward, module, line, inputs, outputs = entry
        return cls(
            plain(name),
            sequence,
            backward,
            module,
            line,
            {key: _value(item) for key, item, _ in inputs},
            {key: _value(item) for key, item, _ in outputs},
            {key: kind for key, _, kind in inputs},
        )


def plain(name: str) -> str:
    """The name of a call in files: letters, digits and underscores, without C++ namespaces."""
    return re.sub(r"\W", "_", name.rpartition("::")[2], flags=re.ASCII)


def _value(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return [_value(each) for each in item]
    if torch.is_storage(item):  # its text has all elements
        return f"{type(item).__name__} of {getattr(item, '_untyped_storage', item).nbytes()} bytes"
    return TensorValue.of(item) if type(item).__name__ == "_CapturedTensor" else item


def statistics_of(data: torch.Tensor) -> dict[str, float]:
    """The statistics of a CPU tensor; none for an empty tensor."""
    if data.numel() == 0:
        return {}
    if data.dtype == torch.complex32:  # which has no abs() on the CPU
        data = data.to(torch.complex64)
    numbers = data.abs() if data.is_complex() else data
    numbers = numbers.to(torch.float64)
    least, greatest = numbers.aminmax()
    return {
        "Max": greatest.item(),
        "Min": least.item(),
        "Mean": numbers.mean().item(),
        "Norm": torch.linalg.vector_norm(numbers).item(),
    }
