"""Registers npu at the end of `import torch`: torch calls autoload(), an entry point of the group torch.backends.

It is a package of its own for two reasons. It must be importable while torch_npu is half imported: `import torch_npu` as the
first statement imports torch, which calls autoload(). And it must be able to skip torch_npu. It never raises, so that `import
torch` works even if torch_npu does not.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

SWITCH = "TORCH_NPU_AUTOLOAD"
"""1: register always; 0: never; unset: register unless CUDA is usable and CANN is not installed."""

_CANN_HOMES = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/latest")


def autoload() -> None:
    # `import torch_npu` called `import torch` and registers npu itself.
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


def _is_wanted() -> bool:
    choice = os.environ.get(SWITCH, "")
    if choice in ("0", "1"):
        return choice == "1"
    if choice:
        _warn(f"the environment variable {SWITCH} is '{choice}', but must be 0 or 1; it is ignored.", UserWarning)
    # A registered npu would take torch.accelerator and pinned memory away from a GPU that works.
    return _has_cann() or not _has_cuda()


def _warn(message: str, category: type[Warning]) -> None:
    try:
        warnings.warn(message, category, stacklevel=3)
    except Warning:  # python -W error
        print(f"{category.__name__}: {message}", file=sys.stderr)


def _has_cuda() -> bool:
    import torch

    return torch.cuda.device_count() > 0


def _has_cann() -> bool:
    named = (os.environ.get(name) for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"))
    homes = [home for home in (*named, *_CANN_HOMES) if home]
    return any(Path(home, inner, "libascendcl.so").exists() for home in homes for inner in ("", "lib64", "lib"))
