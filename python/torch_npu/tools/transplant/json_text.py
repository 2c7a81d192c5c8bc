"""Where values stand in the text of a JSON file."""

from __future__ import annotations

import json


def offset(text: str, keys: tuple[str | int, ...]) -> int:
    """Where the value of a path of keys begins; the nearest enclosing value if it is not found."""
    decoder = json.JSONDecoder()
    position = _skip(text, 0)
    for key in keys:
        inner = _entry(text, position, key, decoder)
        if inner is None:
            break
        position = inner
    return position


def _entry(text: str, position: int, key: str | int, decoder: json.JSONDecoder) -> int | None:
    if text[position : position + 1] not in "{[":
        return None
    is_object = text[position] == "{"
    position = _skip(text, position + 1)
    count = 0
    while position < len(text) and text[position] not in "}]":
        name: str | int = count
        start = position
        if is_object:
            name, position = decoder.raw_decode(text, position)
            start = _skip(text, _skip(text, position) + 1)
        if name == key:
            return start
        _, position = decoder.raw_decode(text, start)
        position = _skip(text, position)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
        count += 1
    return None


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
