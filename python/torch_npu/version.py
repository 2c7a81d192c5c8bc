"""The version: the release of PyTorch, and a local label that distinguishes this package from the vendor's."""

__version__ = "2.13.0+soft.1"
