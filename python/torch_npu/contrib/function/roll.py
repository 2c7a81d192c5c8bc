"""torch.roll of images."""

from collections.abc import Sequence

import torch


def roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int]) -> torch.Tensor:
    """torch.roll of x [n, height, width, channels] along two dimensions."""
    if x.dim() != 4 or len(shifts) != 2 or len(dims) != 2:
        raise ValueError(f"roll takes four dimensions and two shifts, not {x.dim()} dimensions and {shifts} along {dims}")
    return torch.roll(x, shifts, dims)
