"""What the software device can do beyond a card: see docs/checks.md."""

import contextlib

from . import _C


def control(command):
    """Runs a command of the software device, such as "help", and gives its answer as text."""
    return _C._softnpu_control(command)


@contextlib.contextmanager
def faults(rules):
    """Allocations, operators and copies fail or start late as the rules say, such as "malloc:3,launch:7:507015", until the end of
    the block. The rule "count" only counts. Rules that were set before do not come back."""
    control(f"faults {rules}")
    try:
        yield
    finally:
        control("faults off")


def fault_counts():
    """What was counted since rules were last set, by name: malloc, hostmalloc, launch, copy, task, injected, delayed."""
    return {name: int(number) for name, number in map(str.split, control("faults").splitlines())}
