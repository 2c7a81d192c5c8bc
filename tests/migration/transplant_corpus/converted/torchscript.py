import torch


@torch.jit.script
def f(x: torch.Tensor) -> torch.Tensor:
    return x.cuda() + torch.zeros(1, device="cuda")
