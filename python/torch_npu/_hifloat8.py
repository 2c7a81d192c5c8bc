"""HiFloat8, an 8-bit float with an exponent of variable width: the mantissa has three bits for values near 1, and one or none for
very large and very small values.

    codes = encode(x)                      # uint8; rounds to the nearest value, halfway away from zero
    y = decode(codes, torch.float32)
    h = HiFloat8Tensor.to_hifloat8(x)      # a tensor of x's dtype that stores the codes

Magnitudes range from 2^-22 to 2^15. There is one zero, one NaN, and both infinities; 40960 and more is rounded to infinity. A
byte holds a sign, a prefix with the width of the exponent (11: 4 bits, 10: 3, 01: 2, 001: 1, 0001: 0), the sign of the exponent,
its digits after a leading 1 that is not stored, and the mantissa. The prefix 0000 is followed by three bits m and means 2^(m -
23).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._pytree import tree_map

_aten = torch.ops.aten
_NAN = 0x80


def encode(tensor: torch.Tensor) -> torch.Tensor:
    """The codes of the nearest HiFloat8 values, as uint8."""
    values, codes = _positive(tensor.device)
    middle = (values[1:] + values[:-1]) / 2
    place = torch.bucketize(tensor.detach().abs().float(), middle, right=True)
    code = codes[place]
    code = torch.where((tensor < 0) & (code > 0), code + 0x80, code)
    return torch.where(tensor.isnan(), _NAN, code).to(torch.uint8)


def decode(codes: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The values of codes."""
    return _table(codes.device)[codes.to(torch.int64)].to(dtype)


class HiFloat8Tensor(torch.Tensor):
    """A tensor of the dtype `dtype` whose values are HiFloat8. `data` holds their codes.

    Operators get the values as tensors of that dtype. Values written into it are rounded. Gradients pass the rounding
    unchanged."""

    def __new__(cls, *, data: torch.Tensor, dtype: torch.dtype = torch.float32) -> HiFloat8Tensor:
        if data.element_size() != 1:
            raise ValueError(f"HiFloat8Tensor takes the codes of its values, one byte each, not {data.dtype}; see to_hifloat8")
        self = torch.Tensor._make_wrapper_subclass(
            cls, data.size(), strides=data.stride(), storage_offset=data.storage_offset(), dtype=dtype, device=data.device
        )
        self._data = data
        return self

    def __repr__(self) -> str:
        return f"HiFloat8Tensor(data={self.from_hifloat8()})"

    @classmethod
    def make_like(cls, tensor: torch.Tensor, *, data: torch.Tensor, **kwargs: Any) -> HiFloat8Tensor:
        """A HiFloat8Tensor with the codes `data` and the dtype of `tensor`."""
        return cls(data=data, **{"dtype": tensor.dtype, **kwargs})

    @classmethod
    def to_hifloat8(cls, tensor: torch.Tensor) -> HiFloat8Tensor:
        """Rounds a tensor to HiFloat8."""
        return _Round.apply(tensor)

    def from_hifloat8(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The values as an ordinary tensor."""
        return _Values.apply(self, dtype or self.dtype)

    def to_dtype(self, dtype: torch.dtype) -> HiFloat8Tensor:
        """A HiFloat8Tensor with the same codes and another dtype."""
        return self.make_like(self, data=self._data, dtype=dtype)

    def float(self) -> torch.Tensor:
        return self.from_hifloat8(torch.float32)

    def bfloat16(self) -> torch.Tensor:
        return self.from_hifloat8(torch.bfloat16)

    def half(self) -> torch.Tensor:
        return self.from_hifloat8(torch.float16)

    def cpu(self) -> torch.Tensor:
        return self.from_hifloat8().cpu()

    def clone(self) -> torch.Tensor:
        return super().clone()

    def view(self, *shape: Any) -> torch.Tensor:
        return super().view(*shape)

    def reshape(self, *shape: Any) -> torch.Tensor:
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self.contiguous().view(shape)

    def contiguous(self, *, memory_format: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
        if self._data.is_contiguous(memory_format=memory_format):
            return self
        return self.make_like(self, data=self._data.contiguous(memory_format=memory_format))

    def transpose(self, dim0: int, dim1: int) -> torch.Tensor:
        return super().transpose(dim0, dim1)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (self._data, self.dtype)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _keeps_codes(func):
            made = func(args[0]._data, *args[1:], **kwargs)
            return tree_map(lambda data: cls.make_like(args[0], data=data), made)
        plain = lambda x: decode(x._data, x.dtype) if isinstance(x, cls) else x  # noqa: E731
        values, options = tree_map(plain, args), tree_map(plain, kwargs)
        out = func(*values, **options)
        for given, value, argument in zip(args, values, func._schema.arguments, strict=False):
            if isinstance(given, cls) and argument.is_write:
                given._data.copy_(encode(value))
                out = given
        return out

    __torch_function__ = torch._C._disabled_torch_function_impl


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> HiFloat8Tensor:
        return HiFloat8Tensor(data=encode(tensor), dtype=tensor.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class _Values(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: HiFloat8Tensor, dtype: torch.dtype) -> torch.Tensor:
        ctx.dtype = tensor.dtype
        return decode(tensor._data, dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad.to(ctx.dtype), None


def _keeps_codes(func: Any) -> bool:
    """Whether an operator only moves elements: a view, or a clone."""
    made = func._schema.returns[0].alias_info if func._schema.returns else None
    return func is _aten.clone.default or (made is not None and not made.is_write and func is not _aten.view.dtype)


def _rebuild(data: torch.Tensor, dtype: torch.dtype) -> HiFloat8Tensor:
    return HiFloat8Tensor(data=data, dtype=dtype)


def _value(code: int) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    code &= 0x7F
    if code < 8:
        return sign * 2.0 ** (code - 23) if code else (0.0 if sign > 0 else float("nan"))
    width = next(width for width, first in ((4, 0x60), (3, 0x40), (2, 0x20), (1, 0x10), (0, 0x08)) if code >= first)
    digits = min(3, 5 - width)
    mantissa = 1 + (code & ((1 << digits) - 1)) / (1 << digits)
    stored = (code >> digits) & ((1 << width) - 1)
    exponent = 0
    if width:
        lead = 1 << (width - 1)
        exponent = lead | (stored & (lead - 1))
        exponent = -exponent if stored & lead else exponent
    return sign * (float("inf") if (exponent, mantissa) == (15, 1.5) else 2.0**exponent * mantissa)


@functools.lru_cache
def _table(device: torch.device) -> torch.Tensor:
    return torch.tensor([_value(code) for code in range(256)], device=device)


@functools.lru_cache
def _positive(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The values from 0 up, and their codes; the last value stands for infinity."""
    pairs = sorted((min(_value(code), 49152.0), code) for code in range(128))
    values, codes = zip(*pairs, strict=True)
    return torch.tensor(values, device=device), torch.tensor(codes, device=device)
