"""A product with the transpose of a matrix."""


def matmul_transpose(*args, **kwargs):
    """matmul_transpose(tensor1, tensor2): tensor1 @ tensor2.transpose(-2, -1)."""
    return _product(*args, **kwargs)


def _product(tensor1, tensor2):
    return tensor1 @ tensor2.transpose(-2, -1)
