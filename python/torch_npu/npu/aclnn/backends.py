"""The version of the operator library."""

from __future__ import annotations

from ... import _C


def version() -> str:
    """The version of the device library, such as 8.0.0."""
    return _C._npu_library_info()["version"]
