"""The variables that the device is started with, which a process does once. Cases that need others run in another process.

checked   red zones and poisoned memory; SOFTNPU_MEMORY_CHECK may be given
cached    the allocator's cache, which the checks of memory switch off, and no task that runs in the call that launches it

This module does not import torch, whose databases start the device.
"""

import os

CHECKED, CACHED = "checked", "cached"
VARIABLES = {
    CHECKED: {"SOFTNPU_MEMORY_CHECK": os.environ.get("SOFTNPU_MEMORY_CHECK", "redzone,poison")},
    CACHED: {"SOFTNPU_MEMORY_CHECK": "none", "SOFTNPU_LAUNCH": "queue"},
}


def of(id):
    """The environment of a case."""
    return CACHED if id.endswith("/freed") else CHECKED


def enter(name):
    """To be called before the first use of the device."""
    os.environ.update(VARIABLES[name])
