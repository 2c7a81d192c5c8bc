"""torch.roll of images."""

import torch


def roll(x, shifts, dims):
    """torch.roll of x [n, height, width, channels] along two dimensions."""
    if x.dim() != 4 or len(shifts) != 2 or len(dims) != 2:
        raise ValueError(f"roll takes four dimensions and two shifts, not {x.dim()} dimensions and {shifts} along {dims}")
    return torch.roll(x, shifts, dims)
