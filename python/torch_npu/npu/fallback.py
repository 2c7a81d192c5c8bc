"""Which operators npu lacks: they run on the CPU, counted and warned about once each; in strict mode they are an error."""

from .. import _C


def fallback_stats():
    """How often each operator ran on the CPU instead of the device since the last reset, by its name."""
    return dict(_C._fallback_stats())


def reset_fallback_stats():
    _C._fallback_reset_stats()


def is_strict_fallback():
    return _C._fallback_strict()


def set_strict_fallback(strict):
    """True: from now on an operator that would run on the CPU raises RuntimeError. Starts as TORCH_NPU_STRICT_FALLBACK says."""
    _C._fallback_set_strict(strict)
