"""Loads torch and the plugin and tries the device. Prints one line of JSON per step, so that a crash shows the failing step.

    python torch_npu/tools/probe.py

torch_npu.doctor runs this script. A failing step prints its error, and the steps after it are not run.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def _torch() -> dict[str, Any]:
    import torch

    return {"version": torch.__version__, "path": torch.__file__, "threads": torch.get_num_threads()}


def _plugin() -> dict[str, Any]:
    import torch_npu

    return {"version": torch_npu.__version__, "path": torch_npu.__file__}


def _variables() -> dict[str, Any]:
    import torch_npu

    return {"names": [row[0] for row in torch_npu._C._option_docs()]}


def _library() -> dict[str, Any]:
    import torch

    return torch.npu.library_info()


def _device_variables() -> dict[str, Any]:
    import torch_npu

    return {"names": [line.split("\t")[0] for line in torch_npu.softnpu.control("options").splitlines()]}


def _devices() -> dict[str, Any]:
    import torch

    return {"count": torch.npu.device_count()}


def _memory() -> dict[str, Any]:
    import torch

    free, total = torch.npu.mem_get_info()
    return {"free": free, "total": total}


def _product() -> dict[str, Any]:
    import torch

    a = torch.arange(12.0).view(3, 4)
    b = torch.arange(8.0).view(4, 2)
    difference = (a.npu() @ b.npu()).cpu() - a @ b
    return {"difference": difference.abs().max().item()}


_STEPS = {
    "torch": _torch,
    "plugin": _plugin,
    "variables": _variables,
    "library": _library,
    "device_variables": _device_variables,
    "devices": _devices,
    "memory": _memory,
    "product": _product,
}
_OPTIONAL = ("device_variables",)  # CANN does not have this command


def main() -> int:
    for name, step in _STEPS.items():
        try:
            print(json.dumps({"step": name, "found": step()}), flush=True)
        except Exception as error:
            if name in _OPTIONAL:
                continue
            print(json.dumps({"step": name, "error": f"{type(error).__name__}: {error}"}), flush=True)
            return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the doctor waits for this process, and its teardown has nothing to tell
