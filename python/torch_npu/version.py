"""The one place of the version: PyTorch's release, and a label that tells this package from the vendor's of the same name."""

__version__ = "2.13.0+soft.1"
