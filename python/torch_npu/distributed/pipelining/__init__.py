"""Pipelines of stages."""

from ..._offer import not_offered
from ..distributed_c10d import NO_HCCL

__all__ = ["pipeline"]


@not_offered(NO_HCCL)
def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None, mode=None, atomic_units=None): ...
