"""Leaves steps out of a failing program as long as it still fails."""

from dataclasses import replace


def shrink(program, fails, attempts):
    """The shortest program found with so many calls of fails(program)."""
    steps, width = list(program.steps), max(1, len(program.steps) // 2)
    while width > 0 and attempts > 0:
        at = len(steps)
        while at > 0 and attempts > 0:
            at = max(0, at - width)
            shorter = replace(program, steps=tuple(steps[:at] + steps[at + width :]))
            attempts -= 1
            if fails(shorter):
                steps = list(shorter.steps)
        width //= 2
    return replace(program, steps=tuple(steps))
