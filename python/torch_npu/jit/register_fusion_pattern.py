"""Runs all passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fusion_pass.fast_gelu import fast_gelu_pass

if TYPE_CHECKING:
    import torch


__all__ = ["optimize"]


def optimize(jit_mod: torch.jit.ScriptModule | torch.jit.ScriptFunction) -> None:
    """Runs all passes over a traced or scripted module or function, in place, before it runs for the first time."""
    fast_gelu_pass(jit_mod)
