import torch

where = "cuda:0"
other = "cuda"  # flows into zeros
x = torch.zeros(2, device=other)
model = torch.nn.Linear(2, 2).to(where)
