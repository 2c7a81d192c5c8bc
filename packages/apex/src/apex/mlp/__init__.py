"""A chain of linear layers."""

from .mlp import MLP

__all__ = ["MLP"]
