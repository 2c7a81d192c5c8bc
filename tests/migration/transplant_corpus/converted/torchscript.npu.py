import torch_npu
import torch


@torch.jit.script
def f(x: torch.Tensor) -> torch.Tensor:
    return x.to("npu") + torch.zeros(1, device="npu")
