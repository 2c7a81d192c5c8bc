"""What only a process that loads torch and the plugin can tell: one line of JSON for each step, so that a crash shows where.

    python torch_npu/tools/probe.py

A script for torch_npu.doctor, which runs it and judges. A step that fails gives its error, and the steps behind it are left out.
"""

import json
import sys


def _torch():
    import torch

    return {"version": torch.__version__, "path": torch.__file__, "threads": torch.get_num_threads()}


def _plugin():
    import torch_npu

    return {"version": torch_npu.__version__, "path": torch_npu.__file__}


def _variables():
    import torch_npu

    return {"names": [row[0] for row in torch_npu._C._option_docs()]}


def _library():
    import torch

    return torch.npu.library_info()


def _device_variables():
    import torch_npu

    return {"names": [line.split("\t")[0] for line in torch_npu.softnpu.control("options").splitlines()]}


def _devices():
    import torch

    return {"count": torch.npu.device_count()}


def _memory():
    import torch

    free, total = torch.npu.mem_get_info()
    return {"free": free, "total": total}


def _product():
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
_OPTIONAL = ("device_variables",)  # CANN has no such command


def main():
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
    sys.exit(main())
