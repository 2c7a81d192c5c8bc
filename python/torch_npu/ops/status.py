"""The overflow flag of chips that compute with saturation. softnpu computes with inf and nan, so that the flag is never set."""

from .._offer import no_op
from ._define import op

_REASON = "softnpu computes with inf and nan, so that its overflow flag is never set"


@op("npu_alloc_float_status(Tensor self) -> Tensor")
@no_op(_REASON)
def npu_alloc_float_status(self):
    """Eight zeros in float32: no overflow."""
    return self.new_zeros(8).float()


@op("npu_get_float_status(Tensor self, int mode=0) -> Tensor")
@no_op(_REASON)
def npu_get_float_status(self, mode=0):
    """The given status."""
    return self.clone()


@op("npu_clear_float_status(Tensor self, int mode=0) -> Tensor")
@no_op(_REASON)
def npu_clear_float_status(self, mode=0):
    """The given status."""
    return self.clone()
