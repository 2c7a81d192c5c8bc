"""torch.npu.aclnn: which arithmetic convolutions may use.

torch.npu.aclnn.allow_hf32 = False             # the same switch as torch.npu.conv.allow_hf32
"""

import sys
import types

from ..npu_config import conv as _conv
from .backends import version

__all__ = ["allow_hf32", "version"]


class _Module(types.ModuleType):
    @property
    def allow_hf32(self):
        return _conv.allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, value):
        _conv.allow_hf32 = value


sys.modules[__name__].__class__ = _Module
