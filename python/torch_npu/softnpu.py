"""Functions that only the software device has; docs/checks.md describes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import _C


def control(command: str) -> str:
    """Runs a command of the software device, such as "help", and returns its output."""
    return _C._softnpu_control(command)


@contextlib.contextmanager
def faults(rules: str) -> Iterator[None]:
    """Context manager: allocations, operators and copies fail or start late by the rules, such as "malloc:3,launch:7:507015".

    The rule "count" only counts. Rules that were set before are not restored at the end."""
    control(f"faults {rules}")
    try:
        yield
    finally:
        control("faults off")


def fault_counts() -> dict[str, int]:
    """The counts since the rules were last set, by name: malloc, hostmalloc, launch, copy, task, injected, delayed."""
    return {name: int(number) for name, number in map(str.split, control("faults").splitlines())}
