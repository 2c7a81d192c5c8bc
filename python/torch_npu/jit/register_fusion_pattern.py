"""All passes."""

from .fusion_pass.fast_gelu import fast_gelu_pass

__all__ = ["optimize"]


def optimize(jit_mod):
    """Runs all passes over a traced or scripted module or function, in place, before it runs for the first time."""
    fast_gelu_pass(jit_mod)
