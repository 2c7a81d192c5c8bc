"""Operators without a kernel for npu run on the CPU. They are counted, each is warned about once, and in strict mode they
raise."""

from __future__ import annotations

from .. import _C


def fallback_stats() -> dict[str, int]:
    """The number of CPU runs of each operator since the last reset, by its name."""
    return dict(_C._fallback_stats())


def reset_fallback_stats() -> None:
    _C._fallback_reset_stats()


def is_strict_fallback() -> bool:
    return _C._fallback_strict()


def set_strict_fallback(strict: bool) -> None:
    """True: an operator that would run on the CPU raises RuntimeError. The default is TORCH_NPU_STRICT_FALLBACK."""
    _C._fallback_set_strict(strict)
