"""Writes the plugin's adapters, registrations and typed device calls from the operator tables.

    python codegen/plugin_ops.py --out build/generated      # src/plugin/calls.h, calls_*.cpp, adapters_*.cpp

A row of csrc/aten/ops.yaml becomes every form of its operator that ATen does not compose from another one: functional, in-place
and out=. Hand-written families register themselves; they are found by their m.impl lines. All other operators must be listed in
csrc/aten/fallbacks.yaml. A mistake in a table stops the generator with one sentence.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from adapters import adapters, adapters_source, forms
from device_table import DeviceFunction, read_device_table
from output_files import write_if_changed
from plugin_calls import calls_header, calls_source
from plugin_table import PluginOp, read_plugin_table
from registered import hand_written, merged, read_fallbacks
from table_rows import Row, TableError

Item = TypeVar("Item")
ROOT = Path(__file__).resolve().parent.parent
ADAPTER_FILES = 4
CALL_FILES = 2


def split(items: Sequence[Item], parts: int) -> list[Sequence[Item]]:
    """Contiguous parts of equal length; the last ones may be shorter or empty."""
    size = -(-len(items) // parts) if items else 1
    return [items[start : start + size] for start in range(0, parts * size, size)]


def generate(device: dict[str, DeviceFunction], plugin: Iterable[PluginOp]) -> dict[str, str]:
    """File name -> text."""
    made = []
    rows: dict[str, Row] = {}
    for op in plugin:
        for adapter in adapters(op):
            if first := rows.get(adapter.schema_name):
                op.row.fail(f"it gives `{adapter.schema_name}`, which row `{first.key}` in line {first.line} gives already")
            rows[adapter.schema_name] = op.row
            made.append(adapter)
    files = {"src/plugin/calls.h": calls_header(device)}
    for index, functions in enumerate(split(list(device.values()), CALL_FILES)):
        files[f"src/plugin/calls_{index}.cpp"] = calls_source(functions)
    for index, part in enumerate(split(made, ADAPTER_FILES)):
        files[f"src/plugin/adapters_{index}.cpp"] = adapters_source(part)
    return files


def generated_overloads(plugin: Iterable[PluginOp]) -> dict[str, str]:
    """Overload -> device function, for all forms of all rows."""
    found: dict[str, str] = {}
    for op in plugin:
        names = [str(function.func.name) for function in forms(op)] or [op.name]
        found |= dict.fromkeys(names, op.call.function.name)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device-table", type=Path, default=ROOT / "softnpu/ops/aclnn.yaml")
    parser.add_argument("--plugin-table", type=Path, default=ROOT / "csrc/aten/ops.yaml")
    parser.add_argument("--families", type=Path, default=ROOT / "csrc/aten")
    parser.add_argument("--any-fallback", action="store_true", help="do not ask fallbacks.yaml which operators may fall back")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        device = read_device_table(options.device_table)
        plugin = read_plugin_table(options.plugin_table, device)
        natives = merged(generated_overloads(plugin), hand_written(options.families))
        if not options.any_fallback:
            read_fallbacks(options.families / "fallbacks.yaml", natives)
        for name, text in generate(device, plugin).items():
            write_if_changed(options.out / name, text)
    except TableError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
