"""Which overloads the plugin registers, and csrc/aten/fallbacks.yaml, which says why the others run on the CPU.

    families = hand_written(Path("csrc/aten"))                                  # overload -> file of the family
    fallbacks = read_fallbacks(Path("csrc/aten/fallbacks.yaml"), natives)       # reason -> overloads; TableError unless exact

`natives` are all overloads that run on the device. The file holds the other overloads that have a CPU kernel and are not composed
of others by ATen, so that no operator falls back by accident.
"""

import re

from abi_tables import TableError, read_table
from op_tables import aten


def hand_written(folder):
    """Overload -> file, from the m.impl lines of the families."""
    found = {}
    for path in sorted(folder.glob("*/*.cpp")):
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
