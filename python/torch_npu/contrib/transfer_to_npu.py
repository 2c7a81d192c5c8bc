"""Programs that were written for CUDA run on npu, unchanged, after one line:

    import torch_npu.contrib.transfer_to_npu     # or TORCH_TRANSFER_TO_NPU=1 in the environment

"cuda" then means npu wherever torch takes a device, and torch.cuda has the functions of torch.npu. No class or builtin is
replaced, so isinstance, pickles, TorchScript and torch.compile work as before. "cpu" and "meta" keep their meaning. Operators
cost the same as without it.

    transfer_to_npu.undo()                       # restores torch; apply() replaces the names again
    with transfer_to_npu.scope(): ...            # only inside the block
    transfer_to_npu.table()                      # the names that are replaced now

`torch.device("cuda:0")` is `device(type='npu', index=0)`. The strings `device.type`, `str(device)` and `tensor.type()` equal both
the npu form and the cuda form. A program's own CUDA kernels (an extension, Triton) do not run on npu; their use is an error.
docs/migration.md lists the mapping.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

import torch_npu

from .._import_hook import on_import
from . import _cuda_alias

_replaced: list[_cuda_alias.Replacement] = []  # with the original value


def apply() -> None:
    """Makes "cuda" mean npu, in all threads, until undo(). A second call does nothing."""
    if _replaced:
        return
    _tell()
    torch_npu._C._cuda_alias_begin(_cuda_alias.Name)
    _replace_names()
    torch.serialization.register_package(*_PACKAGE)


def undo() -> None:
    """Restores torch. Tensors made in the meantime stay on npu. Does nothing if apply() was not called."""
    if not _replaced:
        return
    torch.serialization._package_registry.remove(_PACKAGE)
    _restore_names()
    torch_npu._C._cuda_alias_end()


def is_applied() -> bool:
    return bool(_replaced)


@contextlib.contextmanager
def scope() -> Iterator[None]:
    """Context manager: apply() at the start and undo() at the end. Does nothing if apply() was called before."""
    if is_applied():
        yield
        return
    apply()
    try:
        yield
    finally:
        undo()


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Context manager: restores the replaced names inside it. As the name of a device, "cuda" still means npu."""
    if not is_applied():
        yield
        return
    _restore_names()
    try:
        yield
    finally:
        _replace_names()


def table() -> list[str]:
    """The names that are replaced now, sorted, such as "torch.cuda.is_available"."""
    return sorted(f"{_name(owner)}.{name}" for owner, name, _ in _replaced)


def _replace_names() -> None:
    for replacement in _cuda_alias.replacements():
        _replace(*replacement)
    for module, replacements in _cuda_alias.AFTER_IMPORT.items():
        if module in sys.modules:
            _replace_if_applied(replacements)


def _restore_names() -> None:
    for owner, name, value in reversed(_replaced):
        if value is not _MISSING:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)
    _replaced.clear()


def _replace(owner: Any, name: str, value: Any) -> None:
    _replaced.append((owner, name, vars(owner).get(name, _MISSING)))
    if value is _cuda_alias.REMOVED:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _replace_if_applied(replacements: Callable[[], _cuda_alias.Replacements]) -> None:
    if is_applied():
        for replacement in replacements():
            _replace(*replacement)


def _name(owner: Any) -> str:
    return owner.__name__ if hasattr(owner, "__path__") or not hasattr(owner, "__qualname__") else f"torch.{owner.__qualname__}"


def _location(storage: Any) -> str | None:
    """Checkpoints name npu, not cuda, so that programs without transfer_to_npu can load them."""
    device = storage.device
    return str(str(device)) if str.__eq__(device.type, "npu") else None


def _restore(storage: Any, location: str) -> Any:
    """Loads a storage whose location, in the checkpoint or by map_location, is CUDA."""
    meant = str(location)
    if meant == "cuda" or meant.startswith("cuda:"):
        meant = "npu" + meant[4:]
    return None if meant is location else torch.serialization.default_restore_location(storage, meant)


def _tell() -> None:
    """Logs one line per program: neither its child processes nor ranks above 0 repeat it."""
    if multiprocessing.parent_process() is not None or os.environ.get("RANK", "0") != "0":
        return
    found = torch.cuda.device_count()
    hidden = f"; the {found} CUDA device{'s' if found > 1 else ''} of this machine cannot be reached meanwhile" if found else ""
    logging.getLogger("torch_npu").warning("transfer_to_npu: cuda means npu from now on%s (undo() ends it)", hidden)


_MISSING = object()
_PACKAGE = (18, _location, _restore)  # lower than the priorities of all other packages for CUDA; priorities must differ

for _module, _replacements in _cuda_alias.AFTER_IMPORT.items():
    on_import(_module, functools.partial(_replace_if_applied, _replacements))
apply()
