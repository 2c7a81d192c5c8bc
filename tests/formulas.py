"""Tensors for formulas, and comparison with them."""

import torch


def rand(*shape, seed=0):
    """float64 between -1 and 1, the same in every run."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1


def close(result, expected, rtol=1e-4, atol=1e-5):
    """A tensor on any device, or a tuple of them, has dtype, shape and values of what is expected."""
    if isinstance(expected, tuple):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            close(one, other, rtol, atol)
        return
    torch.testing.assert_close(result.cpu(), expected, rtol=rtol, atol=atol)
