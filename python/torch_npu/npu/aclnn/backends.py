"""Which operator library is in use."""

from ... import _C


def version():
    """The version of the device library, such as 8.0.0."""
    return _C._npu_library_info()["version"]
