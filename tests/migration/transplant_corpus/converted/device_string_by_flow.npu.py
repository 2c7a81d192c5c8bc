import torch_npu
import torch

where = "npu:0"
other = "npu"  # flows into zeros
x = torch.zeros(2, device=other)
model = torch.nn.Linear(2, 2).to(where)
