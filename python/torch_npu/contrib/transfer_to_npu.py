"""Programs that were written for CUDA run on npu, unchanged, after one line:

    import torch_npu.contrib.transfer_to_npu     # or TORCH_TRANSFER_TO_NPU=1 in the environment

"cuda" is then another word for npu wherever torch takes a device, and torch.cuda has the functions of torch.npu. Classes and
builtins stay what they are, so that isinstance, pickles, TorchScript and torch.compile go on as before; "cpu" and "meta" are
not touched. Operators cost what they cost without it.

    transfer_to_npu.undo()                       # torch as it was; apply() puts it back
    with transfer_to_npu.scope(): ...            # only within
    transfer_to_npu.table()                      # what is exchanged meanwhile

Devices say npu: `torch.device("cuda:0")` is `device(type='npu', index=0)`. What they are called, by `device.type`, `str(device)`
or `tensor.type()`, equals both what is said of npu and what would be said of cuda.
A CUDA kernel that a program brings itself (an extension, Triton) does not run on npu and says so where it is used.
docs/migration.md tells what is mapped to what.
"""

import contextlib
import functools
import logging
import multiprocessing
import os
import sys

import torch

import torch_npu

from .._on_import import on_import
from . import _cuda_names

_exchanged = []


def apply():
    """Makes cuda mean npu, from now on and in all threads. Does nothing where it does already."""
    if _exchanged:
        return
    _tell()
    torch_npu._C._cuda_alias_begin(_cuda_names.Name)
    _exchange_names()
    torch.serialization.register_package(*_PACKAGE)


def undo():
    """Gives torch back as it was. Tensors that were made meanwhile stay on npu. Does nothing where nothing was applied."""
    if not _exchanged:
        return
    torch.serialization._package_registry.remove(_PACKAGE)
    _restore_names()
    torch_npu._C._cuda_alias_end()


def is_applied():
    return bool(_exchanged)


@contextlib.contextmanager
def scope():
    """Context manager: cuda means npu within it; where it does so outside already, nothing changes."""
    if is_applied():
        yield
        return
    apply()
    try:
        yield
    finally:
        undo()


@contextlib.contextmanager
def suspended():
    """Context manager: names are those of torch within it. "cuda" goes on to mean npu where a device is named."""
    if not is_applied():
        yield
        return
    _restore_names()
    try:
        yield
    finally:
        _exchange_names()


def table():
    """The names that are exchanged now, sorted, such as "torch.cuda.is_available"."""
    return sorted(f"{_name(owner)}.{name}" for owner, name, _ in _exchanged)


def _exchange_names():
    for exchange in _cuda_names.exchanges():
        _exchange(*exchange)
    for module, exchanges in _cuda_names.LATER.items():
        if module in sys.modules:
            _exchange_later(exchanges)


def _restore_names():
    for owner, name, value in reversed(_exchanged):
        if value is not _MISSING:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)
    _exchanged.clear()


def _exchange(owner, name, value):
    _exchanged.append((owner, name, vars(owner).get(name, _MISSING)))
    if value is _cuda_names.REMOVED:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _exchange_later(exchanges):
    if is_applied():
        for exchange in exchanges():
            _exchange(*exchange)


def _name(owner):
    return owner.__name__ if hasattr(owner, "__path__") or not hasattr(owner, "__qualname__") else f"torch.{owner.__qualname__}"


def _location(storage):
    """npu, not cuda, in checkpoints: who does not migrate can load them."""
    device = storage.device
    return str(str(device)) if str.__eq__(device.type, "npu") else None


def _restore(storage, location):
    """Storages of checkpoints that were written on CUDA, or are to be loaded there."""
    meant = str(location)
    if meant == "cuda" or meant.startswith("cuda:"):
        meant = "npu" + meant[4:]
    return None if meant is location else torch.serialization.default_restore_location(storage, meant)


def _tell():
    # Once for a program, not for each of its processes.
    if multiprocessing.parent_process() is not None or os.environ.get("RANK", "0") != "0":
        return
    found = torch.cuda.device_count()
    hidden = f"; the {found} CUDA device{'s' if found > 1 else ''} of this machine cannot be reached meanwhile" if found else ""
    logging.getLogger("torch_npu").warning("transfer_to_npu: cuda means npu from now on%s (undo() ends it)", hidden)


_MISSING = object()
_PACKAGE = (18, _location, _restore)  # before all others for CUDA; two of one number cannot be sorted

for _module, _exchanges in _cuda_names.LATER.items():
    on_import(_module, functools.partial(_exchange_later, _exchanges))
apply()
