"""Draws figures of a page as SVG: bars on tracks over time, and a flame graph. A bar shows its text under the mouse pointer."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_WIDTH, _ROW, _LABEL = 1200, 18, 220


@dataclass
class Frame:
    """A node of a flame graph. `value` includes the children."""

    name: str
    value: float = 0
    children: dict[str, Frame] = field(default_factory=dict)

    def child(self, name: str) -> Frame:
        return self.children.setdefault(name, Frame(name))


def timeline(tracks: Sequence[tuple[str, Iterable[tuple[float, float, str]]]], unit: str = "us") -> str:
    """Draws bars over time. tracks: pairs (label, bars). A bar is (start, end, name)."""
    rows = [(label, sorted(bars)) for label, bars in tracks]
    first = min((bar[0] for _, bars in rows for bar in bars), default=0.0)
    last = max((bar[1] for _, bars in rows for bar in bars), default=1.0)
    scale = (_WIDTH - _LABEL) / ((last - first) or 1)
    parts = []
    for place, (label, bars) in enumerate(rows):
        top = place * (_ROW + 4)
        parts.append(f'<text x="0" y="{top + 13}">{html.escape(label)}</text>')
        for start, end, name in bars:
            text = f"{name}: {end - start:.1f} {unit} at {start - first:.1f}"
            parts.append(_bar(_LABEL + (start - first) * scale, top, max((end - start) * scale, 0.5), name, text, ""))
    return _svg("timeline", len(rows) * (_ROW + 4), parts)


def flame(root: Frame, unit: str = "us", most_depth: int = 40) -> str:
    """Draws a flame graph. The width of a bar is its value. A bar below another bar is a part of it."""
    parts: list[str] = []
    deepest = 0
    waiting = [(root, 0.0, 0)]
    scale = _WIDTH / (root.value or 1)
    while waiting:
        frame, left, depth = waiting.pop()
        width = frame.value * scale
        if width < 0.5 or depth > most_depth:
            continue
        deepest = max(deepest, depth)
        share = 100 * frame.value / (root.value or 1)
        shown = frame.name[: int(width / 7)] if width > 30 else ""
        parts.append(_bar(left, depth * _ROW, width, frame.name, f"{frame.name}: {frame.value:.1f} {unit}, {share:.1f} %", shown))
        for child in frame.children.values():
            waiting.append((child, left, depth + 1))
            left += child.value * scale
    return _svg("flame", (deepest + 1) * _ROW, parts)


def _bar(left: float, top: float, width: float, name: str, text: str, shown: str) -> str:
    colour = sum(name.encode()) * 47 % 360
    label = f'<text x="{left + 2:.1f}" y="{top + 13}">{html.escape(shown)}</text>' if shown else ""
    return (
        f'<g><title>{html.escape(text)}</title><rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_ROW - 1}" '
        f'fill="hsl({colour},60%,72%)"/>{label}</g>'
    )


def _svg(name: str, height: int, parts: Iterable[str]) -> str:
    body = "".join(parts)
    return (
        f'<svg class="{name}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height + 4}" width="100%" '
        f'font-family="sans-serif" font-size="11">{body}</svg>'
    )
