import importlib
from unittest import mock

import torch

m = importlib.import_module("torch.cuda")
with mock.patch("torch.cuda.is_available", return_value=False):
    pass
print(eval("torch.cuda.is_available()"), "torch.cuda.is_available()")
