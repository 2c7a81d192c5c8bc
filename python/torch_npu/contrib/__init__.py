"""Functions and modules of the vendor's package. They consist of ATen operators and run on every device.

    from torch_npu.contrib import ChannelShuffle, npu_multiclass_nms
    from torch_npu.contrib.module import LinearQuant

The two subpackages are imported on first use. `import torch_npu.contrib.transfer_to_npu` is separate: it makes a program for CUDA
run on npu.
"""

import importlib
from typing import Any

_PARTS = ("function", "module")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f".{name}", __name__)
    if name != "transfer_to_npu" and not name.startswith("_"):
        for part in _PARTS:
            found = getattr(importlib.import_module(f".{part}", __name__), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
