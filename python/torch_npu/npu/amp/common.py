"""What the parts of torch.npu.amp share."""

from ..devices import is_available


def amp_definitely_not_available():
    """Whether there is no device that could compute in mixed precision."""
    return not is_available()
