"""The name by which checkpoints of the real package call for a tensor on npu, see _checkpoints.py."""

from .._checkpoints import _rebuild_npu_tensor  # noqa: F401

__all__ = []
