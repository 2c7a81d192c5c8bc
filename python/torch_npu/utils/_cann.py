"""The version of CANN."""

from .. import _C


def get_cann_version(module="CANN"):
    """The version of a package of CANN, such as 8.5.0; with softnpu, that of the CANN whose behaviour it follows. Empty where
    CANN cannot say.

    module: CANN, RUNTIME, COMPILER, HCCL, TOOLKIT, OPP, OPP_KERNEL or DRIVER."""
    return _C._get_cann_version(module)
