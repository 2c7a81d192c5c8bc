"""Writes torch_npu/_op_support.json: what is known of each overload beyond the dispatcher's registry.

    python codegen/op_support.py --out build/release/torch_npu/_op_support.json

torch_npu.tools.coverage reads it. The sources are docs/ops.md (how each overload ran in the samples of PyTorch's databases, with
which dtypes, or why it runs on the CPU), softnpu/ops/aclnn.yaml (the dtypes of a device function) and tests/ops/known_gaps.yaml.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ops_docs
import yaml
from device_table import DeviceFunction, read_device_table
from op_types import DTYPE_SETS
from ops_docs import Row
from output_files import write_if_changed
from plugin_ops import generated_overloads
from plugin_table import PluginOp, read_plugin_table
from table_rows import TableError

ROOT = Path(__file__).resolve().parent.parent
SHORT = {
    "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16", "bf16": "bfloat16",
    "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128", "bool": "bool",
}  # fmt: skip


def qualified(name: str) -> str:
    return name if "::" in name else f"aten::{name}"


def expanded(words: Iterable[str]) -> list[str]:
    """The dtypes that words of the device table mean, such as `floating`."""
    return sorted({dtype for word in words for dtype in DTYPE_SETS.get(word, (word,))})


def row_facts(row: Row) -> dict[str, Any]:
    """The facts of one row of docs/ops.md. Empty ones are left out."""
    failed = [SHORT[word] for word in row.status.removeprefix("fails:").split()] if row.status.startswith("fails:") else []
    ran = [SHORT[word] for word in row.dtypes.split()]
    differs = row.status.startswith("differs:")
    facts = {"runs": row.runs, "by": row.by, "ran": ran, "failed": failed, "differs": row.status if differs else ""}
    return {name: value for name, value in facts.items() if value}


def collect(
    rows: Mapping[str, Row], device: Mapping[str, DeviceFunction], plugin: Sequence[PluginOp], gaps: Iterable[Mapping[str, str]]
) -> dict[str, Any]:
    found = {qualified(name): row_facts(row) for name, row in rows.items()}
    floating = {
        op.call.function.name for op in plugin if "floating" in (op.fast, op.foreach)
    }  # the plugin converts integers before the call
    for name, function in generated_overloads(plugin).items():
        allowed = device[function].dtypes
        if allowed and not device[function].promotes and function not in floating:
            found.setdefault(qualified(name), {})["takes"] = expanded(allowed)
    bugs = [{"case": gap["id"], "reason": gap["reason"]} for gap in gaps if gap["class"] in ("bug", "not offered")]
    return {"overloads": dict(sorted(found.items())), "gaps": bugs}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device-table", type=Path, default=ROOT / "softnpu/ops/aclnn.yaml")
    parser.add_argument("--plugin-table", type=Path, default=ROOT / "csrc/aten/ops.yaml")
    parser.add_argument("--ran", type=Path, default=ROOT / "docs/ops.md")
    parser.add_argument("--gaps", type=Path, default=ROOT / "tests/ops/known_gaps.yaml")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        device = read_device_table(options.device_table)
        plugin = read_plugin_table(options.plugin_table, device)
        gaps = yaml.safe_load(options.gaps.read_text()) or []
        facts = collect(ops_docs.parse(options.ran.read_text()).rows, device, plugin, gaps)
    except TableError as error:
        sys.exit(f"error: {error}")
    write_if_changed(options.out, json.dumps(facts, indent=0) + "\n")


if __name__ == "__main__":
    main()
