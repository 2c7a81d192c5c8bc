"""What the software device can do beyond a card: see docs/checks.md."""

from . import _C


def control(command):
    """Runs a command of the software device, such as "help", and gives its answer as text."""
    return _C._softnpu_control(command)
