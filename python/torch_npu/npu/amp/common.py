"""A helper of torch.npu.amp."""

from __future__ import annotations

from ..devices import is_available


def amp_definitely_not_available() -> bool:
    """Whether no device is available."""
    return not is_available()
