"""Collectives of npu tensors."""

from torch.distributed import ReduceOp

from .._offer import not_offered

NO_HCCL = 'HCCL is not there yet; use init_process_group("gloo") with tensors on the CPU'


def is_hccl_available():
    """Whether init_process_group("hccl") works: not yet."""
    return False


@not_offered(NO_HCCL)
def reinit_process_group(group=None, rebuild_link=True): ...


@not_offered(NO_HCCL)
def all_gather_into_tensor_uneven(output, input, output_split_sizes=None, group=None, async_op=False): ...


@not_offered(NO_HCCL)
def reduce_scatter_tensor_uneven(output, input, input_split_sizes=None, op=ReduceOp.SUM, group=None, async_op=False): ...
