"""The overloads that the plugin registers, and csrc/aten/fallbacks.yaml, which gives the reason why the others run on the CPU.

    families = hand_written(Path("csrc/aten"))                                  # overload -> where a family registers it
    natives = merged(generated_overloads(plugin), families)                     # all overloads that run on the device
    fallbacks = read_fallbacks(Path("csrc/aten/fallbacks.yaml"), natives)       # reason -> overloads; TableError unless exact

fallbacks.yaml holds exactly the overloads that are not native, have a CPU kernel and are not composed of others by ATen, so that
no operator falls back by accident.
"""

import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import NamedTuple

from aten_schemas import aten
from table_rows import Row, TableError, read_table


class Registration(NamedTuple):
    """An m.impl line of a hand-written family."""

    path: Path
    line: int


def hand_written(folder: Path) -> dict[str, Registration]:
    """Overload -> its m.impl line in the families."""
    found = {}
    for path in sorted(folder.glob("*/*.cpp")):
        text = path.read_text()
        for block in re.finditer(r"TORCH_LIBRARY_IMPL\(aten, PrivateUse1, m\) \{(.*?)\}", text, re.DOTALL):
            for match in re.finditer(r'm\.impl\(\s*"([^"]+)"', block[1]):
                line = text.count("\n", 0, block.start(1) + match.start()) + 1
                found[match[1]] = Registration(path, line)
    return found


def merged(generated: Mapping[str, str], families: Mapping[str, Registration]) -> dict[str, str]:
    """Native overload -> device function or file. TableError if a row and a family register the same overload."""
    for name in sorted(set(generated) & set(families)):
        path, line = families[name]
        raise TableError(f"{path}, line {line}: `{name}` is registered by hand and by a row of ops.yaml.")
    return {**generated, **{name: registration.path.name for name, registration in families.items()}}


def cpu_only(natives: Container[str]) -> set[str]:
    """The overloads that have a CPU kernel, no native one, and are not composed of others."""
    known = aten()
    return {
        name for name, function in known.functions.items()
        if name not in natives and not function.has_composite_kernel and known.cpu.get_kernel(function)
    }  # fmt: skip


def read_fallbacks(path: Path, natives: Container[str]) -> dict[str, list[str]]:
    expected = cpu_only(natives)
    listed: dict[str, Row] = {}
    groups: dict[str, list[str]] = {}
    for row in read_table(path):
        names = [word.removesuffix("?") for word in row.names()]
        for name, word in zip(names, row.names(), strict=True):
            if name in listed:
                row.fail(f"`{name}` is listed twice, first in line {listed[name].line}")
            listed[name] = row
            if name in natives:
                row.fail(f"`{name}` is native, it does not fall back")
            if name not in expected and not word.endswith("?"):
                unknown = name not in aten().functions
                row.fail(f"`{name}` is unknown to ATen" if unknown else f"`{name}` has no CPU kernel of its own to fall back to")
        groups[row.key] = sorted(name for name in names if name in expected)
    missing = sorted(expected - set(listed))
    if missing:
        raise TableError(f"{path}: `{missing[0]}` falls back to CPU, but no reason is given; make it native or list it.")
    return groups
