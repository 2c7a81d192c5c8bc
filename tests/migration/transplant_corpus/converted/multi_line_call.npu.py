import torch_npu
import torch

model = torch.nn.Sequential(
    torch.nn.Linear(2, 2),  # first
    torch.nn.ReLU(),
).npu(
    # which device
    0,
)
x = torch.zeros(
    2,
    device=(
        "npu"  # here
        if torch.npu.is_available()
        else "cpu"
    ),
)
