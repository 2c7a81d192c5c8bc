"""LinearQuant under its old name."""

from .linear_quant import LinearQuant


class LinearA8W8Quant(LinearQuant):
    """LinearQuant."""
