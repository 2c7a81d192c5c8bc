"""Helpers: combined tensors, a FLOP counter, thread affinity, asynchronous checkpoints."""

from ..npu.utils import get_cann_version
from .affinity import reset_thread_affinity, set_thread_affinity
from .combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors
from .flops_count import FlopsCounter
from .serialization import save_async

__all__ = [
    "FlopsCounter",
    "get_cann_version",
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "reset_thread_affinity",
    "save_async",
    "set_thread_affinity",
]
