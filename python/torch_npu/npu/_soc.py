"""The numbers of chips, as torch.npu.get_soc_version returns them."""

from __future__ import annotations

_FIRST = {
    100: ("Ascend910PremiumA", "Ascend910ProA", "Ascend910A", "Ascend910ProB", "Ascend910B"),
    200: ("Ascend310P1", "Ascend310P2", "Ascend310P3", "Ascend310P4", "Ascend310P5", "Ascend310P7"),
    220: ("Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"),
    240: ("Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4"),
    250: (
        *("Ascend910_9391", "Ascend910_9392", "Ascend910_9381", "Ascend910_9382"),
        *("Ascend910_9372", "Ascend910_9362", "Ascend910_9363"),
    ),
    260: ("Ascend950",),
}
NUMBERS = {name: first + i for first, names in _FIRST.items() for i, name in enumerate(names)}


def number_of(name: str) -> int:
    """The number of a chip, such as 223 for Ascend910B3; -1 for one that is not known."""
    return NUMBERS["Ascend950"] if name.startswith("Ascend950") else NUMBERS.get(name, -1)
