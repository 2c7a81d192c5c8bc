"""docs/api.md: what each public name offers, from the marks of torch_npu/_api_status.py and from cuda.yaml."""

from collections import Counter

import yaml

from . import FOLDER, offers, public

HEAD = """\
# Public names

Made by `python -m tests.api --docs docs/api.md`; a test compares it with the package. The list is that of the real package
(`tests/api/public.txt`): each name can be imported with the same signature. It works, or does nothing for the reason given here,
or is not offered: then it raises `NotImplementedError` with that reason. Names of one object are listed once, under the shortest.
"""
CUDA = """\
## torch.cuda

Every public callable of torch.cuda is in torch.npu under the same name, except these.

| torch.cuda | reason |
|---|---|
"""


def document():
    found = offers()
    count = Counter(state for state, _ in found.values())
    total = f"\n{len(public())} names of {len(found)} objects: {count['works']} work, {count['no-op']} do nothing, "
    total += f"{count['not offered']} are not offered.\n"
    parts = sorted({_part(name) for name in found})
    text = HEAD + total + "".join(_section(part, {name: found[name] for name in found if _part(name) == part}) for part in parts)
    reasons = yaml.safe_load((FOLDER / "cuda.yaml").read_text())
    return text + "\n" + CUDA + "".join(f"| `{name}` | {reason} |\n" for name, reason in sorted(reasons.items()))


def _part(name):
    """The section of a name: the package that holds it, at most two deep; functions of torch_npu itself have one of their own."""
    parts = name.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 and parts[1][0].islower() and not parts[1].startswith("npu_") else "torch_npu"


def _section(part, found):
    short = {name: name.removeprefix(part + ".") for name in found}
    working = ", ".join(f"`{short[name]}`" for name, (state, _) in found.items() if state == "works")
    rows = [f"| `{short[name]}` | {state} | {reason} |\n" for name, (state, reason) in found.items() if state != "works"]
    text = f"\n## {part}\n"
    if working:
        text += f"\nWorks: {working}.\n"
    if rows:
        text += "\n| name | | reason |\n|---|---|---|\n" + "".join(rows)
    return text
