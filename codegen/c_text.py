"""C text: declarations and calls, broken into lines of at most WIDTH columns."""

from collections.abc import Sequence

WIDTH = 130


def join_name(type_text: str, name: str) -> str:
    return f"{type_text}{'' if type_text.endswith('*') or not name else ' '}{name}"


def call_text(head: str, parts: Sequence[str], tail: str, indent: str = "") -> str:
    """`head(parts)tail`, broken between the parts where a line would get too long."""
    lines = [f"{indent}{head}("]
    for number, part in enumerate(parts):
        text = part + ("," if number + 1 < len(parts) else f"){tail}")
        separator = "" if lines[-1].endswith("(") else " "
        if len(lines[-1] + separator + text) > WIDTH:
            lines.append(f"{indent}    {text}")
        else:
            lines[-1] += separator + text
    return "\n".join(lines) if parts else f"{lines[0]}){tail}"
