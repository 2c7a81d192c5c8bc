"""torch.npu.aclnn: allows or forbids HF32 arithmetic in convolutions.

torch.npu.aclnn.allow_hf32 = False             # the same switch as torch.npu.conv.allow_hf32
"""

from __future__ import annotations

import sys
import types

from ..npu_config import conv as _conv
from .backends import version

__all__ = ["allow_hf32", "version"]


class _Module(types.ModuleType):
    @property
    def allow_hf32(self) -> bool:
        return _conv.allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        _conv.allow_hf32 = value


sys.modules[__name__].__class__ = _Module
