"""Information about the machine for bug reports: `python -m torch_npu.utils.collect_env`.

    print(get_pretty_env_info())

Built on torch.utils.collect_env, with torch_npu and CANN in place of CUDA.
"""

from __future__ import annotations

import os
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import torch
from torch.utils import collect_env as _torch

from .._commands import run

__all__ = [
    "SystemEnv",
    "check_directory_path_readable",
    "check_path_owner_consistent",
    "get_cann_version",
    "get_env_info",
    "get_pretty_env_info",
    "get_torch_npu_install_path",
    "get_torch_npu_version",
    "main",
    "pretty_str",
]

SystemEnv = namedtuple(
    "SystemEnv",
    [
        "torch_version",
        "torch_npu_version",
        "is_debug_build",
        "gcc_version",
        "clang_version",
        "cmake_version",
        "os",
        "libc_version",
        "python_version",
        "python_platform",
        "pip_version",
        "pip_packages",
        "conda_packages",
        "caching_allocator_config",
        "is_xnnpack_available",
        "cpu_info",
        "cann_version",
    ],
)

_UNKNOWN = "Could not collect"
_ALLOCATOR = "PYTORCH_NPU_ALLOC_CONF"
_LINES = {
    "torch_version": "PyTorch version",
    "torch_npu_version": "torch_npu version",
    "cann_version": "CANN version",
    "is_debug_build": "Is debug build",
    "caching_allocator_config": "Caching allocator config",
    "is_xnnpack_available": "Is XNNPACK available",
    "python_version": "Python version",
    "python_platform": "Python platform",
    "os": "OS",
    "libc_version": "Libc version",
    "gcc_version": "GCC version",
    "clang_version": "Clang version",
    "cmake_version": "CMake version",
}


def check_path_owner_consistent(path: str) -> None:
    """Raises RuntimeError unless the path exists and belongs to this user or to root. Another user could replace its files."""
    try:
        owner = os.stat(path).st_uid
    except OSError as error:
        raise RuntimeError(f"the path {path} cannot be examined: {error.strerror}") from None
    if owner not in (0, os.geteuid()):
        raise RuntimeError(f"the path {path} belongs to user {owner}, neither to this user nor to root")


def check_directory_path_readable(path: str) -> None:
    """Raises RuntimeError unless the path is a readable folder, not a link, that check_path_owner_consistent accepts."""
    check_path_owner_consistent(path)
    if os.path.islink(path):
        raise RuntimeError(f"the path {path} is a link; name the folder itself")
    if not os.path.isdir(path):
        raise RuntimeError(f"the path {path} is no folder")
    if not os.access(path, os.R_OK):
        raise RuntimeError(f"the folder {path} cannot be read; its mode forbids it")


def get_cann_version() -> str:
    """Such as 8.5.0, followed by (softnpu) if that is the device library."""
    from . import get_cann_version as of_package

    try:
        library = torch.npu.library_info()
        return of_package() + (" (softnpu)" if library["origin"] == "softnpu" else "")
    except RuntimeError as error:
        return f"{_UNKNOWN}: {str(error).splitlines()[0]}"


def get_torch_npu_version() -> str:
    import torch_npu

    return torch_npu.__version__


def get_torch_npu_install_path() -> str:
    """The folder of the package."""
    import torch_npu

    return str(Path(torch_npu.__file__).parent)


def get_env_info() -> SystemEnv:
    """A SystemEnv. Runs compilers and pip for their versions; does not start a device."""
    found = _torch.get_env_info()
    own = ("torch_npu_version", "cann_version", "caching_allocator_config")
    return SystemEnv(
        torch_npu_version=get_torch_npu_version(),
        cann_version=get_cann_version(),
        caching_allocator_config=os.environ.get(_ALLOCATOR, ""),
        **{name: getattr(found, name) for name in SystemEnv._fields if name not in own},
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """The SystemEnv as text: a line per value, then the processor and the packages."""
    lines = [f"{label}: {_text(getattr(envinfo, name))}" for name, label in _LINES.items()]
    lines += ["", "CPU:", _text(envinfo.cpu_info), "", "Packages:"]
    lines += [f"[{envinfo.pip_version or 'pip'}] {line}" for line in (envinfo.pip_packages or "").splitlines()]
    lines += [f"[conda] {line}" for line in (envinfo.conda_packages or "").splitlines()]
    return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None:
        return _UNKNOWN
    return str(value) or "N/A"


def get_pretty_env_info() -> str:
    return pretty_str(get_env_info())


def main() -> None:
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    _status = run("torch_npu.utils.collect_env", main)
    if _status:
        sys.exit(_status)
