"""Environment variables of the device. It reads them once per process, so cases that need other values run in another process.

checked   red zones and poisoned memory; SOFTNPU_MEMORY_CHECK may be given
cached    the allocator's cache, which the memory checks switch off; tasks are queued, none runs in the launching call

This module does not import torch, because torch's databases start the device.
"""

import os

CHECKED, CACHED = "checked", "cached"
VARIABLES = {
    CHECKED: {"SOFTNPU_MEMORY_CHECK": os.environ.get("SOFTNPU_MEMORY_CHECK", "redzone,poison")},
    CACHED: {"SOFTNPU_MEMORY_CHECK": "none", "SOFTNPU_LAUNCH": "queue"},
}


def of(id):
    """The name of the environment that a case needs."""
    return CACHED if id.endswith("/freed") else CHECKED


def enter(name):
    """Sets the variables. Call it before the first use of the device."""
    os.environ.update(VARIABLES[name])
