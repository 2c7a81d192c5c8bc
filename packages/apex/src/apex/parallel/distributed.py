"""apex.parallel.DistributedDataParallel over torch's, and Reducer."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel as TorchDistributedDataParallel


class DistributedDataParallel(TorchDistributedDataParallel):
    """torch.nn.parallel.DistributedDataParallel with the options of apex.

    delay_allreduce: reduces at the end of the backward pass; torch then expects unused parameters. message_size: elements of a
    bucket. gradient_average=False: the sum of the gradients. gradient_predivide_factor, allreduce_always_fp32: see apex.
    The other options choose buckets and streams of NVIDIA's device and change nothing here."""

    def __init__(
        self,
        module: torch.nn.Module,
        message_size: int = 10_000_000,
        delay_allreduce: bool = False,
        shared_param: bool | None = None,
        allreduce_trigger_params: Any = None,
        retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False,
        num_allreduce_streams: int = 1,
        allreduce_communicators: Any = None,
        gradient_average: bool = True,
        gradient_predivide_factor: float = 1.0,
        gradient_average_split_factor: Any = None,
        prof: bool = False,
        process_group: Any = None,
    ) -> None:
        if shared_param is not None:
            raise ValueError("shared_param is no option of apex.parallel.DistributedDataParallel: write delay_allreduce=True")
        megabytes = max(1, message_size * 4 >> 20)
        super().__init__(
            module,
            process_group=process_group,
            bucket_cap_mb=megabytes,
            find_unused_parameters=delay_allreduce,
            broadcast_buffers=False,
        )
        if allreduce_always_fp32 or not gradient_average or gradient_predivide_factor != 1.0:
            size = torch.distributed.get_world_size(self.process_group)
            before = 1 / gradient_predivide_factor
            after = gradient_predivide_factor / size if gradient_average else gradient_predivide_factor
            self.register_comm_hook(_Sum(self.process_group, allreduce_always_fp32, before, after), _reduce)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The state of the module, with its own names."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        return self.module.load_state_dict(state_dict, *args, **kwargs)


class _Sum:
    def __init__(self, group: Any, in_float32: bool, before: float, after: float) -> None:
        self.group, self.in_float32, self.before, self.after = group, in_float32, before, after


def _reduce(state: _Sum, bucket: Any) -> Any:
    grads = bucket.buffer()
    work = grads.float() if state.in_float32 else grads
    work = work.mul_(state.before)
    future = torch.distributed.all_reduce(work, group=state.group, async_op=True).get_future()
    return future.then(lambda done: grads.copy_(done.value()[0].mul_(state.after)))


class Reducer:
    """Averages parameters' gradients over all ranks when the program calls reduce(). The parameters become those of rank 0."""

    def __init__(self, module_or_grads_list: Any) -> None:
        self.module = module_or_grads_list if isinstance(module_or_grads_list, torch.nn.Module) else None
        self.grads = [] if self.module is not None else list(module_or_grads_list)
        if self.module is not None:
            for param in self.module.parameters():
                torch.distributed.broadcast(param.data, 0)

    def reduce(self) -> None:
        grads = self.grads if self.module is None else [p.grad for p in self.module.parameters() if p.grad is not None]
        size = torch.distributed.get_world_size()
        for grad in grads:
            torch.distributed.all_reduce(grad.div_(size))
