"""One program for all versions of torch: the plugin is imported if it is installed."""

import torch

if tuple(int(part) for part in torch.__version__.split(".")[:2]) > (1, 5):
    import torch_npu  # noqa: F401
assert torch.npu.is_available()
