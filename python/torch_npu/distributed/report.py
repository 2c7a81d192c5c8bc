"""`python -m torch_npu.distributed.report FOLDER` names the rank that was late, and its last call.

The folder has files of the flight recorder. With TORCH_HCCL_DUMP_ON_TIMEOUT=1 each rank writes a file when a collective exceeds
its timeout, or when its communicator fails. docs/distributed.md has an example."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["BadFolder", "describe", "main"]

_NEEDED = {
    "pg_id": str,
    "is_p2p": bool,
    "rank": int,
    "group_size": int,
    "collective_seq_id": int,
    "profiling_name": str,
    "input_sizes": list,
    "input_dtypes": list,
    "retired": bool,
}


_MOST_RANKS = 1 << 20  # largest size of a group; a file with a larger size is damaged
_MOST_NAMES = 10  # number of files that a sentence names


class BadFolder(Exception):
    """No record of the folder can be read. The text gives the reason."""


@dataclass
class _Record:
    """The file of one rank of the world."""

    rank: int
    reason: str
    entries: list[dict[str, Any]]

    def calls(self, group: str) -> list[dict[str, Any]]:
        """The collectives of a group, oldest first, without messages between two ranks."""
        return [entry for entry in self.entries if entry["pg_id"] == group and not entry["is_p2p"]]

    def open_messages(self) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["is_p2p"] and _is_open(entry)]


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), kind) for name, kind in _NEEDED.items()):
        return False
    return bool(0 <= entry["rank"] < entry["group_size"] <= _MOST_RANKS)


def _read(path: Path) -> _Record | None:
    """Reads a file. Returns None if it is not a complete record of the flight recorder."""
    number = re.search(r"([0-9]{1,9})$", path.name)
    if number is None:
        return None
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("comm_lib") != "hccl":
        return None
    entries = content.get("entries")
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        return None
    return _Record(int(number[1]), str(content.get("reason", "")), entries)


def _records(folder: Path) -> tuple[list[_Record], list[str]]:
    """The records of a folder by rank, and the names of its other files."""
    try:
        if not folder.is_dir():
            raise BadFolder(f"{folder} is not a folder; give the folder of TORCH_HCCL_DEBUG_INFO_TEMP_FILE")
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise BadFolder(f"{folder} cannot be read: {error.strerror}") from None
    read = {path.name: _read(path) for path in files}
    found = [record for record in read.values() if record is not None]
    if not files:
        raise BadFolder(
            f"{folder} is empty; set TORCH_HCCL_DUMP_ON_TIMEOUT=1 and TORCH_HCCL_TRACE_BUFFER_SIZE, and run the program again"
        )
    if not found:
        raise BadFolder(f"none of the {len(files)} files of {folder} is a complete record of the flight recorder of hccl")
    if not any(record.entries for record in found):
        raise BadFolder(
            f"the records of {folder} have no calls; set TORCH_HCCL_TRACE_BUFFER_SIZE=2000, and run the program again"
        )
    return sorted(found, key=lambda record: record.rank), [name for name, record in read.items() if record is None]


def _verb(ranks: Sequence[int], one: str, several: str) -> str:
    return one if len(ranks) == 1 else several


def _list(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _is_open(entry: dict[str, Any]) -> bool:
    return not entry["retired"] or entry.get("state") == "failed"


def _tensors(entry: dict[str, Any], which: str) -> str:
    kinds, sizes = entry.get(f"{which}_dtypes"), entry.get(f"{which}_sizes")
    if not isinstance(kinds, list) or not isinstance(sizes, list):
        return ""
    return ", ".join(f"{kind}{size}" for kind, size in zip(kinds, sizes, strict=False))


def _call(entry: dict[str, Any]) -> str:
    name, tensors = entry["profiling_name"].removeprefix("hccl:"), _tensors(entry, "input")
    return f"{name} number {entry['collective_seq_id']}" + (f" of {tensors}" if tensors else "")


def _messages(records: list[_Record]) -> list[str]:
    """A sentence for each rank with unfinished messages. It names the oldest message."""
    lines = []
    for record in records:
        waiting = record.open_messages()
        if waiting:
            first = waiting[0]
            tensors = _tensors(first, "input") or _tensors(first, "output")
            name = first["profiling_name"].removeprefix("hccl:") + (f" of {tensors}" if tensors else "")
            lines.append(f"Rank {record.rank} did not finish {name} in the group '{first['pg_id']}'.")
    return lines


def _group(name: str, records: list[_Record]) -> list[str]:
    """Sentences about one group."""
    last = {record.rank: calls[-1] for record in records if (calls := record.calls(name))}
    number = {rank: entry["collective_seq_id"] for rank, entry in last.items()}
    newest, oldest = max(number.values()), min(number.values())
    front = [rank for rank in number if number[rank] == newest]
    unfinished = [rank for rank in front if _is_open(last[rank])]
    lines = []
    if oldest < newest:
        behind = [rank for rank in number if number[rank] == oldest]
        lines.append(
            f"{_list(behind).capitalize()} {_verb(behind, 'was', 'were')} behind: the last call was "
            f"{_call(last[behind[0]])}, while {_list(front)} called {_call(last[front[0]])}."
        )
    shapes = {(last[rank]["profiling_name"], str(last[rank]["input_sizes"]), str(last[rank]["input_dtypes"])) for rank in front}
    if len(shapes) > 1:
        each = "; ".join(f"rank {rank} called {_call(last[rank])}" for rank in front)
        lines.append(f"The ranks called different collectives with the same number: {each}.")
    size = max(entry["group_size"] for entry in last.values())
    absent = sorted(set(range(size)) - {entry["rank"] for entry in last.values()})
    if absent:
        while_others = f"while {_list(front)} {_verb(front, 'was', 'were')} in {_call(last[front[0]])}"
        lines.append(
            f"{_list(absent).capitalize()} of the group {_verb(absent, 'has', 'have')} no record: the process ended or was "
            f"stopped, or it had no unfinished collective {while_others}."
        )
    if not lines and unfinished:
        lines.append(f"All ranks called {_call(last[unfinished[0]])}, and {_list(unfinished)} did not finish it.")
    return lines or [f"No rank was behind: all finished {_call(last[front[0]])}."]


def describe(folder: str | Path) -> str:
    """The report about the records of a folder. Raises BadFolder."""
    records, others = _records(Path(folder))
    lines = []
    for name in sorted({entry["pg_id"] for record in records for entry in record.entries if not entry["is_p2p"]}):
        lines += [f"Group '{name}':", *(f"  {line}" for line in _group(name, records))]
    lines += _messages(records)
    if not lines:
        lines.append("No rank was behind: there were only messages between two ranks, and all were finished.")
    lines += [f"Rank {record.rank} reported: {record.reason}." for record in records if record.reason]
    if others:
        more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
        lines.append(f"Skipped, because they are not complete records of hccl: {', '.join(others[:_MOST_NAMES])}{more}.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.distributed.report", description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="the folder with the files of the flight recorder")
    try:
        text = describe(parser.parse_args(arguments).folder)
        encoding = sys.stdout.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding))  # names of files may be any bytes
    except BadFolder as error:
        sys.exit(f"report: {error}")


if __name__ == "__main__":
    main()
