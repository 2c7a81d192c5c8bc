"""Writes, reads and checks docs/ops.md.

    python codegen/ops_docs.py --check docs/ops.md      # compares the published table with ops.yaml and the families
    text = render(rows, called=590, offered=610)        # tests/op_coverage makes the rows by running
    table = parse(text)                                 # table.rows["add.Tensor"].runs

A row says how an overload ran. Overloads that are registered but were not reached are `not exercised`. Overloads that only have a
CPU kernel are `fallback`, with the reason from csrc/aten/fallbacks.yaml. The check fails if an operator has lost its device call.
"""

import argparse
import collections
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from device_table import read_device_table
from plugin_ops import generated_overloads
from plugin_table import PluginOp, read_plugin_table
from registered import hand_written, merged, read_fallbacks
from table_rows import TableError

ROOT = Path(__file__).resolve().parent.parent

KINDS = {
    "aclnn": "one device call",
    "composition": "several device calls, put together by the plugin",
    "view": "no device call: the result is a view",
    "host": "no device call: memory, metadata, and copies of the runtime",
    "composite": "several operators, put together by PyTorch",
    "fallback": "the CPU, with copies both ways, counted by `torch.npu.fallback_stats()`",
    "not exercised": "the plugin has a kernel, but no sample reached it",
}
OWN = ("aclnn", "composition", "view", "host", "not exercised")  # a kernel of the plugin


@dataclass(frozen=True)
class Row:
    name: str  # add.Tensor, npu::npu_rms_norm
    runs: str  # a key of KINDS
    by: str = ""  # the aclnn functions; for a fallback the reason; if not exercised, the function or the file
    result: str = ""  # new, view, in place or nothing
    dtypes: str = ""  # of the first tensor, in calls that succeeded
    status: str = ""  # equal, not compared, differs: ..., fails: ...

    def cells(self) -> tuple[str, ...]:
        return (self.name, self.runs, self.by, self.result, self.dtypes, self.status)


@dataclass(frozen=True)
class Table:
    rows: dict[str, Row]  # by name
    called: int  # aclnn functions that the plugin calls


CALLED = re.compile(r"The plugin calls (\d+) of the (\d+) aclnn functions")
HEAD = "| overload | runs as | by | result | dtypes | status |"


INTRODUCTION = """\
# Operators of the npu device

`scripts/ops-docs` writes this table: it runs samples of PyTorch's operator and module databases, forward and backward, and
records what each overload does on the device. [debugging.md](debugging.md) shows how to see that in your own program.
The plugin calls {called} of the {offered} aclnn functions of the device.
"""
COLUMNS = """\
The result is new, a view, or written in place; another kind than on the CPU counts as a difference. Dtypes are those of the first
tensor in calls that succeeded. Status compares the result with the CPU's for the same inputs, with the tolerances of
`torch.testing.assert_close`; random and uninitialised results are not compared. Operators that PyTorch decomposes before they
reach a device, such as `linear`, are not listed.
"""


def render(rows: Collection[Row], called: int, offered: int) -> str:
    counts = collections.Counter(row.runs for row in rows)
    return "\n".join([
        INTRODUCTION.format(called=called, offered=offered),
        "| runs as | overloads | |",
        "|---|---|---|",
        *(f"| {kind} | {counts[kind]} | {text} |" for kind, text in KINDS.items()),
        "",
        COLUMNS,
        HEAD,
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(row.cells())} |".replace("|  |", "| |").replace("|  |", "| |") for row in sorted(rows, key=Row.cells)),
        "",
    ])  # fmt: skip


def parse(text: str) -> Table:
    counted = CALLED.search(text)
    if counted is None or HEAD not in text:
        raise TableError("the file is not the table of operators; run scripts/ops-docs")
    rows = {}
    for line in text.partition(HEAD)[2].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 6 and not set(cells[0]) <= {"-"}:
            rows[cells[0]] = Row(*cells)
    return Table(rows, int(counted[1]))


# ---- the sources ----


@dataclass(frozen=True)
class Facts:
    natives: dict[str, str]  # overload with a kernel of the plugin -> device function or file
    fallbacks: dict[str, str]  # overload with a CPU kernel only -> reason
    called: set[str]  # aclnn functions that the plugin calls
    offered: set[str]  # aclnn functions of the device table


def called_functions(plugin: Iterable[PluginOp], folder: Path) -> set[str]:
    calls = [call for op in plugin for call in (op.call, op.inplace, *op.scalar.values()) if call is not None]
    found = {call.function.name for call in calls}
    for path in folder.glob("*/*.cpp"):
        found |= set(re.findall(r"\bcall::(aclnn\w+)", path.read_text()))
    return found


def read_facts(device_path: Path, plugin_path: Path, folder: Path) -> Facts:
    device = read_device_table(device_path)
    plugin = read_plugin_table(plugin_path, device)
    natives = merged(generated_overloads(plugin), hand_written(folder))
    reasons = read_fallbacks(folder / "fallbacks.yaml", natives)
    fallbacks = {name: reason for reason, names in reasons.items() for name in names}
    return Facts(natives, fallbacks, called_functions(plugin, folder), set(device))


def losses(table: Table, facts: Facts) -> list[str]:
    """One sentence for each difference between the published table and the sources."""
    found = []
    for name, row in table.rows.items():
        if row.runs != "fallback" and name in facts.fallbacks:
            found.append(f"{name} ran as {row.runs}, but now falls back to the CPU")
        elif row.runs in OWN and name not in facts.natives:
            found.append(f"{name} ran as {row.runs}, but has no kernel of the plugin any more")
    found += [f"{name} is not in the published table" for name in facts.natives if name not in table.rows]
    found += [f"{name} has a kernel, but is published as fallback" for name in facts.natives
              if name in table.rows and table.rows[name].runs == "fallback"]  # fmt: skip
    if len(facts.called) < table.called:
        found.append(f"the plugin calls {len(facts.called)} aclnn functions, fewer than the published {table.called}")
    return sorted(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device-table", type=Path, default=ROOT / "softnpu/ops/aclnn.yaml")
    parser.add_argument("--plugin-table", type=Path, default=ROOT / "csrc/aten/ops.yaml")
    parser.add_argument("--families", type=Path, default=ROOT / "csrc/aten")
    parser.add_argument("--check", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        facts = read_facts(options.device_table, options.plugin_table, options.families)
        found = losses(parse(options.check.read_text()), facts)
    except TableError as error:
        sys.exit(f"error: {error}")
    if found:
        sys.exit("\n".join(f"error: {sentence}" for sentence in found) + "\nIf the change is intended, run scripts/ops-docs.")


if __name__ == "__main__":
    main()
