"""What runs where: native overloads against csrc/aten/fallbacks.yaml, and docs/ops.md.

    families = hand_written(Path("csrc/aten"))                                  # overload -> file of the family
    fallbacks = read_fallbacks(Path("csrc/aten/fallbacks.yaml"), natives)       # reason -> overloads; TableError unless exact
    text = documentation(generated, families, fallbacks)

`natives` are all overloads that run on the device. The file holds the other overloads that have a CPU kernel and are not composed
of others by ATen, so that no operator falls back by accident.
"""

import re

from abi_tables import TableError, read_table
from op_tables import aten


def hand_written(folder):
    """Overload -> file, from the m.impl lines of the families."""
    found = {}
    for path in sorted(folder.glob("*.cpp")):
        text = path.read_text()
        for block in re.finditer(r"TORCH_LIBRARY_IMPL\(aten, PrivateUse1, m\) \{(.*?)\}", text, re.DOTALL):
            found |= dict.fromkeys(re.findall(r'm\.impl\(\s*"([^"]+)"', block[1]), path.name)
    return found


def merged(generated, families):
    """All native overloads; none of them by a row and by hand."""
    clash = sorted(set(generated) & set(families))
    if clash:
        raise TableError(f"csrc/aten/{families[clash[0]]}: `{clash[0]}` is registered by hand and by a row of ops.yaml")
    return {**generated, **families}


def cpu_only(natives):
    """The overloads that have a CPU kernel and nothing else."""
    known = aten()
    return {
        name for name, function in known.functions.items()
        if name not in natives and not function.has_composite_kernel and known.cpu.get_kernel(function)
    }  # fmt: skip


def read_fallbacks(path, natives):
    truth, listed, groups = cpu_only(natives), {}, {}
    for row in read_table(path):
        names = [name.removesuffix("?") for name in row.items()]
        for name, word in zip(names, row.items(), strict=True):
            if name in listed:
                row.fail(f"`{name}` is listed twice, first in line {listed[name].line}")
            listed[name] = row
            if name in natives:
                row.fail(f"`{name}` is native, it does not fall back")
            if name not in truth and not word.endswith("?"):
                unknown = name not in aten().functions
                row.fail(f"`{name}` is unknown to ATen" if unknown else f"`{name}` has no CPU kernel of its own to fall back to")
        groups[row.key] = sorted(name for name in names if name in truth)
    missing = sorted(truth - set(listed))
    if missing:
        raise TableError(f"{path}: `{missing[0]}` falls back to CPU, but no reason is given; make it native or list it")
    return groups


def documentation(head, generated, families, fallbacks):
    count = sum(len(names) for names in fallbacks.values())
    lines = [
        "# Operators of the npu device",
        "",
        f"{head} `python codegen/plugin_ops.py --docs docs/ops.md` writes this file.",
        "",
    ]
    lines += [
        f"{len(generated)} overloads are rows of the table, {len(families)} are written by hand.",
        f"{count} have a CPU kernel only and fall back to it. Every other ATen operator is composed of these by PyTorch.",
        "",
    ]
    lines += ["## One device call", "", "| overload | device function |", "| --- | --- |"]
    lines += [f"| {name} | {call} |" for name, call in sorted(generated.items())]
    lines += ["", "## Written by hand", "", "| overload | file in csrc/aten |", "| --- | --- |"]
    lines += [f"| {name} | {file} |" for name, file in sorted(families.items())]
    lines += ["", "## CPU fallback", "", "Each with its reason, from csrc/aten/fallbacks.yaml."]
    for reason, names in fallbacks.items():
        lines += ["", f"**{reason}**", "", *wrapped(names)]
    return "\n".join(lines) + "\n"


def wrapped(names, width=130):
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) + 2 > width:
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + name
    return [line + ("," if index + 1 < len(lines) else "") for index, line in enumerate(lines)]
