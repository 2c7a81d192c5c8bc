"""Registers npu at the end of `import torch`, by the entry point group torch.backends.

A package of its own: it must be importable while torch_npu is half imported, which is so when `import torch_npu` is the first
statement and imports torch, and it must be able to leave torch_npu alone. Never raises: `import torch` works without us.
"""

import os
import sys
import warnings
from pathlib import Path

SWITCH = "TORCH_NPU_AUTOLOAD"
"""1: register beside CUDA too; 0: never; unset: not where CUDA is usable and no CANN is installed."""

_CANN_HOMES = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/latest")


def autoload():
    # Its import is under way and goes on when torch is there.
    if "torch_npu" in sys.modules or not _is_wanted():
        return
    try:
        import torch_npu  # noqa: F401
    except Exception as error:
        reason = " ".join(str(error).split())
        _warn(
            f"torch_npu was not loaded, so there is no device npu: {reason} (`import torch_npu` shows where; "
            f"{SWITCH}=0 turns this off)",
            RuntimeWarning,
        )


def _is_wanted():
    choice = os.environ.get(SWITCH, "")
    if choice in ("0", "1"):
        return choice == "1"
    if choice:
        _warn(f"the environment variable {SWITCH} is '{choice}', but must be 0 or 1; it is ignored.", UserWarning)
    # A registered npu would take torch.accelerator and pinned memory away from a GPU that works.
    return _has_cann() or not _has_cuda()


def _warn(message, category):
    try:
        warnings.warn(message, category, stacklevel=3)
    except Warning:  # python -W error
        print(f"{category.__name__}: {message}", file=sys.stderr)


def _has_cuda():
    import torch

    return torch.cuda.device_count() > 0


def _has_cann():
    named = (os.environ.get(name) for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"))
    homes = [home for home in (*named, *_CANN_HOMES) if home]
    return any(Path(home, inner, "libascendcl.so").exists() for home in homes for inner in ("", "lib64", "lib"))
