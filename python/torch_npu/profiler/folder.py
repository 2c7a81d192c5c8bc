"""The folders of results: WORKER_TIME_ascend_pt of torch_npu.profiler, and PROF_NUMBER_TIME_LETTERS of torch.npu.profile.

write_ascend_pt(folder, records, config)     # FRAMEWORK/, PROF_*/, ASCEND_PROFILER_OUTPUT/, profiler_info_RANK.json
prof = new_prof_folder(Path("result"))       # makes an empty folder with a new name
read_any(folder)                             # reads such a folder, a folder that contains one, or a trace of torch.profiler
"""

from __future__ import annotations

import json
import os
import secrets
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..version import __version__
from . import database, tables, trace
from .experimental_config import _ExperimentalConfig
from .ranks import rank
from .records import NotAProfile, Records, read_raw, without_garbage_collection, write_raw
from .torch_trace import find_trace, read_trace

OUTPUT = "ASCEND_PROFILER_OUTPUT"


def moment() -> str:
    now = time.time()
    return time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now * 1000) % 1000:03}"


def new_prof_folder(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        number = len(list(parent.glob("PROF_*"))) + 1
        letters = "".join(secrets.choice(string.ascii_uppercase) for _ in range(16))
        folder = parent / f"PROF_{number:06}_{moment()}_{letters}"
        folder.mkdir()
    except OSError as error:
        raise ValueError(f"the folder {parent} for results of the profiler cannot be written: {error.strerror}") from None
    return folder


def write_ascend_pt(folder: Path, records: Records, config: _ExperimentalConfig) -> Path:
    """Writes a complete result and returns its output folder. The raw records are written first, so they exist if a later file
    fails."""
    make_folder(folder)
    write_raw(new_prof_folder(folder), records)
    write_info(folder, records, config)
    return write_output(folder, records, config, config.export_type)


def make_folder(folder: Path) -> None:
    try:
        (folder / "FRAMEWORK").mkdir(parents=True)
    except OSError as error:
        raise OSError(error.errno, f"the profile cannot be written to {folder}: {error.strerror}") from None


def write_info(folder: Path, records: Records, config: _ExperimentalConfig) -> None:
    """Writes profiler_info_RANK.json (settings, the host) and profiler_metadata.json (texts of add_metadata, process groups)."""
    info = {name: value for name, value in records.info.items() if name not in ("settings", "metadata")}
    start, end = records.span()
    stored = {
        "config": {
            "common_config": records.info.get("settings", {}),
            "experimental_config": {f"_{name}": value for name, value in vars(config).items()},
        },
        "start_info": {"start_ns": start},
        "end_info": {"end_ns": end, "dropped_records": records.dropped, "unfinished_tasks": records.unfinished},
        "rank_id": rank(),
        "torch_npu_version": __version__,
        "metrics": "N/A: the software device has no counters",
        **info,
    }
    _write_json(folder / f"profiler_info_{rank()}.json", stored)
    _write_json(folder / "profiler_metadata.json", records.info.get("metadata", {}))


def _write_json(path: Path, value: Any) -> None:
    try:
        path.write_text(json.dumps(value, indent=1, default=str) + "\n")
    except OSError as error:
        raise OSError(error.errno, f"the profile cannot be written to {path}: {error.strerror}") from None


@without_garbage_collection()
def write_output(folder: Path, records: Records, config: _ExperimentalConfig, export_type: Sequence[str]) -> Path:
    output = folder / OUTPUT
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"the profile cannot be written to {output}: {error.strerror}") from None
    if "text" in export_type:
        trace.write_trace(output / "trace_view.json", records)
        tables.write_all(output, records, config.aic_metrics, config.l2_cache)
    if "db" in export_type:
        database.write(output / f"ascend_pytorch_profiler_{records.info.get('rank', rank())}.db", records)
    return output


def find_raw(folder: Path) -> Path:
    """The folder of raw records: the given one, or the newest below it. Otherwise a trace of torch.profiler.

    host/info.json tells the age: an export of an old profile changes its folder."""
    trace = find_trace(folder)
    if not folder.is_dir():
        if trace is not None:
            return trace
        raise NotAProfile(f"{folder} is not a folder; give one that a profiler wrote, or a trace *.pt.trace.json")
    if (folder / "host" / "info.json").exists():
        return folder
    found = [path for depth in ("*", "*/*") for path in folder.glob(f"{depth}/host/info.json")]
    if found:
        return max(found, key=lambda path: path.stat().st_mtime).parent.parent
    if trace is not None:
        return trace
    raise NotAProfile(f"{folder} contains no profile of torch_npu: no folder in it has a file host/info.json")


def read_found(source: Path) -> Records:
    """Reads the records that find_raw finds."""
    return read_trace(source) if source.is_file() else read_raw(source)


def read_any(folder: str | os.PathLike[str]) -> Records:
    return read_found(find_raw(Path(folder)))
