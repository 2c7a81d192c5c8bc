"""torch.utils.dumper: dumps operators with their tensors to an HDF5 file, replays such a file, or finds overflows.

with torch.utils.dumper(use_dump=True, dump_path="./model.h5") as dump:                       # dump
with torch.utils.dumper(use_dump=True, load_file_path="./model.h5", dump_path="./npu.h5"):    # replay the inputs of a file, dump
with torch.utils.dumper(check_overflow=True, dump_path="./overflow"):                         # name the operators that overflow
with torch.utils.dumper(use_load=True, load_file_path="./op.h5", dump_path="./", load_with_acl_dump=True):

A `dump_path` that ends in .h5 is the file. Any other `dump_path` is a folder, and the file in it is named after the time.
"""

from __future__ import annotations

import datetime
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .. import _C
from ..tools.accuracy.names import SAME_ARGUMENT, SAME_OPERATOR
from ._hdf5 import Hdf5Writer, _h5py
from ._record import Record
from ._replay import Replay
from ._session import Capture


class dumper:
    def __init__(
        self,
        enabled: bool = True,
        use_dump: bool = False,
        use_load: bool = False,
        check_overflow: bool = False,
        dump_path: str | os.PathLike[str] | None = None,
        load_file_path: str | os.PathLike[str] | None = None,
        load_with_acl_dump: bool = False,
        *,
        compress: bool = False,
        operators: str = "",
    ) -> None:
        switches = {
            "enabled": enabled,
            "use_dump": use_dump,
            "use_load": use_load,
            "check_overflow": check_overflow,
            "load_with_acl_dump": load_with_acl_dump,
        }
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise TypeError(f"torch.utils.dumper: {name} must be True or False, but is {value!r}")
        load = os.fspath(load_file_path) if load_file_path else ""
        if check_overflow and (use_dump or use_load or load):
            raise ValueError("torch.utils.dumper: check_overflow cannot be combined with use_dump, use_load or load_file_path")
        if load_with_acl_dump and not load:
            raise ValueError("torch.utils.dumper: load_with_acl_dump needs a load_file_path")
        if use_load and not load:
            raise ValueError("torch.utils.dumper: use_load needs a load_file_path")
        if enabled and not (use_dump or use_load or check_overflow):
            raise ValueError("torch.utils.dumper: set one of use_dump, use_load and check_overflow to True")
        self._problem = ""  # why nothing is dumped
        self._load: Path | None = None
        self._path: Path | None = None
        self._enabled, self._overflow, self._acl = enabled, check_overflow, load_with_acl_dump
        self._compress, self._operators = compress, operators
        if enabled:
            try:
                self._load = _existing(load) if load else None
                self._path = _file_of(dump_path)
                if self._load is not None and self._load.resolve() == self._path.resolve():
                    raise ValueError(f"dump_path and load_file_path are the same file, {self._load}; choose another dump_path")
            except (OSError, ValueError) as error:
                self._problem = str(error)
        self._has_own_name = self._path is not None and bool(dump_path) and self._path == Path(dump_path or "")
        self._blocks, self._nested = 0, 0  # ended or begun, and begun inside of the active one
        self._capture: Capture | None = None
        self._replay: Replay | None = None
        self._hook: Any = None

    @property
    def path(self) -> str | None:
        """The file of the dump."""
        return str(self._path) if self._path is not None else None

    def get_op_map(self) -> tuple[dict[str, str], dict[str, str]]:
        """Two tables, for operators and for parameters: a name in files of some device -> the common name."""
        return dict(SAME_OPERATOR), dict(SAME_ARGUMENT)

    def __enter__(self) -> dumper:
        if not self._enabled:
            return self
        if self._capture is not None:
            self._nested += 1
            told = "this dump is active already; the block inside it starts no other one, and the program goes on"
            print(f"torch.utils.dumper: {told}", file=sys.stderr, flush=True)
            return self
        if self._blocks and self._path is not None and not self._has_own_name:
            self._path = self._path.with_name(_name_of_now())  # each block has a file of its own
        self._blocks += 1
        self._warn()
        try:
            self._start()
        except (OSError, RuntimeError) as error:
            self._problem = self._problem or str(error).split("\n")[0]
        if self._problem:
            print(f"torch.utils.dumper: {self._problem}; nothing is dumped, and the program goes on", file=sys.stderr, flush=True)
        return self

    def _start(self) -> None:
        if self._problem or self._path is None:
            return
        if self._load is not None:
            self._replay = Replay(_h5py(), self._load, self._acl)
        if _C._capture_is_active():
            raise RuntimeError("another dump is active in this process; end it before you start this one")
        writer: Any = _OverflowWriter(self._path, self._compress) if self._overflow else None
        if writer is None:
            writer = _opened(self._path, self._compress)
        options: dict[str, Any] = {}
        if self._replay is not None:
            options = {"before": self._replay.before, "after": self._replay.after, "first_sequence": self._replay.last + 1}
        self._capture = Capture(writer, operators=self._operators, overflow=self._overflow, **options)
        try:
            self._capture.start()
        except RuntimeError:
            self._capture = None
            writer.close()
            raise
        self._hook = register_optimizer_step_pre_hook(self._warn_of_optimizer)
        if not self._overflow:
            print(f"torch.utils.dumper writes {self._path}", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._nested:
            self._nested -= 1
            return
        capture, self._capture = self._capture, None
        if capture is None:
            return
        self._remove_hook()
        try:
            capture.stop()
        finally:
            if self._replay is not None:
                self._replay.close()

    def _warn_of_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Warns of the first step of an optimizer in the block."""
        self._remove_hook()
        name = type(optimizer).__name__
        advice = "leave the optimizer outside the block and dump one step"
        warnings.warn(
            f"torch.utils.dumper: {name}.step() runs in the block, so its operators are dumped too; {advice}", stacklevel=3
        )

    def _remove_hook(self) -> None:
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.remove()

    def _warn(self) -> None:
        many = torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1
        if self._overflow and many:
            warnings.warn("torch.utils.dumper: check_overflow is meant for a single device", stacklevel=3)
        for problem in _problems_of_apex() if self._overflow and "apex.amp" in sys.modules else []:
            warnings.warn(f"torch.utils.dumper: check_overflow {problem}", stacklevel=3)
        if self._acl and os.environ.get("ACL_DUMP_DATA") == "1":
            warnings.warn("torch.utils.dumper: load_with_acl_dump needs ACL_DUMP_DATA=0, but it is 1", stacklevel=3)


def _problems_of_apex() -> list[str]:
    state = getattr(sys.modules["apex.amp"], "_amp_state", None)
    state = getattr(state, "_amp_state", state)
    problems = []
    if any(getattr(scaler, "dynamic", False) for scaler in getattr(state, "loss_scalers", [])):
        problems.append("with apex's dynamic loss scale also reports overflows that the scale causes; give a fixed loss_scale")
    if getattr(getattr(state, "opt_properties", None), "combine_grad", False):
        problems.append("with combine_grad=True sees combined gradients; set combine_grad=False")
    return problems


def _existing(path: str) -> Path:
    if not path.endswith(".h5"):
        raise ValueError(f"load_file_path must end in .h5, but is {path!r}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"load_file_path: there is no file {path!r}; dump it first")
    return Path(path)


def _file_of(path: str | os.PathLike[str] | None) -> Path:
    given = Path(path) if path else Path.cwd()
    if "\0" in str(given):
        raise ValueError(f"dump_path must not have a null character, but is {str(given)!r}")
    if given.suffix == ".h5" and not given.is_dir():
        if not given.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(given.parent)!r} for the dump_path {str(given)!r}")
        return given
    if given.suffix and not given.is_dir():
        raise ValueError(f"dump_path must be a folder or a file that ends in .h5, but is {str(given)!r}")
    given.mkdir(parents=True, exist_ok=True)
    return given / _name_of_now()


def _name_of_now() -> str:
    return datetime.datetime.now().strftime("%Y%m%d_%H%M%S.%f.h5")


def _opened(path: Path, compress: bool) -> Hdf5Writer:
    try:
        return Hdf5Writer(path, compress)
    except OSError as error:
        raise OSError(f"{error}; choose another dump_path") from None


class _OverflowWriter:
    """Writes overflows. The file is made at the first overflow."""

    def __init__(self, path: Path, compress: bool) -> None:
        self._path, self._compress = path, compress
        self._writer: Hdf5Writer | None = None

    def write(self, record: Record) -> None:
        if self._writer is None:
            self._writer = Hdf5Writer(self._path, self._compress)
        print(f"torch.utils.dumper: {record.name} overflows (sequence number {record.sequence}, {self._path})", flush=True)
        self._writer.write(record)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
