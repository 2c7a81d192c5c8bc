import importlib
from unittest import mock

import torch_npu
import torch

m = importlib.import_module("torch.npu")
with mock.patch("torch.npu.is_available", return_value=False):
    pass
print(eval("torch.npu.is_available()"), "torch.cuda.is_available()")
