"""Dumps of operators. The device library writes files that `msaccucmp convert` and `msaccucmp compare` read.

    torch.npu.init_dump()
    torch.npu.set_dump("./dump.json")     # {"dump": {"dump_path": "./output", "dump_mode": "all", "dump_op_switch": "on"}}
    a.add_(1)
    torch.npu.finalize_dump()

docs/debugging.md has the members of the file and the names of the results.
"""

from __future__ import annotations

import os

from .. import _C
from ._lazy import _lazy_init


def init_dump() -> None:
    """Prepares a dump. RuntimeError if a dump is already prepared."""
    _lazy_init()
    _C._init_dump()


def set_dump(cfg_file: str | os.PathLike[str]) -> None:
    """Begins to dump the operators that are launched from now on. The JSON file holds the settings. Call init_dump() first."""
    path = os.fspath(cfg_file)
    if not isinstance(path, str):
        raise TypeError(f"set_dump: cfg_file must be a path, but is {cfg_file!r}")
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"set_dump: there is no file {path!r}; write "
            '{"dump": {"dump_path": "./output", "dump_mode": "all", "dump_op_switch": "on"}} into it'
        )
    _lazy_init()
    _C._set_dump(path)


def finalize_dump() -> None:
    """Ends the dump. Waits until all work is done and its files are written."""
    _lazy_init()
    _C._finalize_dump()
