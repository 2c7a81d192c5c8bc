"""Tensors made by the type names that PyTorch had before 0.4. Prints the values."""

import json

import torch

if torch.cuda.is_available():
    FloatTensor, LongTensor, where = torch.cuda.FloatTensor, torch.cuda.LongTensor, "torch.cuda."
else:
    FloatTensor, LongTensor, where = torch.FloatTensor, torch.LongTensor, "torch."

values = FloatTensor([1.5, 2.5, -3.0])
indices = LongTensor([2, 0])
assert isinstance(values, FloatTensor) and not isinstance(values, LongTensor)
assert values.type(where + "HalfTensor").dtype == torch.float16
assert values.type(where + "HalfTensor").is_cuda == torch.cuda.is_available()
assert torch.ones(2).type(FloatTensor).is_cuda == torch.cuda.is_available()
assert FloatTensor(2, 3).shape == (2, 3)
torch.set_default_tensor_type(where + "DoubleTensor")
assert torch.ones(2).dtype == torch.float64 and torch.ones(2).is_cuda == torch.cuda.is_available()
torch.set_default_tensor_type(FloatTensor)
assert torch.ones(2).is_cuda == torch.cuda.is_available()
torch.set_default_tensor_type("torch.FloatTensor")
assert torch.ones(2).dtype == torch.float32 and not torch.ones(2).is_cuda
print(json.dumps([values[indices].tolist(), values.type(LongTensor).tolist()]))
