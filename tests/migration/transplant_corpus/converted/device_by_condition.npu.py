import torch_npu
import torch

device = torch.device("npu" if torch.npu.is_available() else "cpu")
model = torch.nn.Linear(2, 2).to(device)
