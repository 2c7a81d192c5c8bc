import torch

model = torch.nn.Sequential(
    torch.nn.Linear(2, 2),  # first
    torch.nn.ReLU(),
).cuda(
    # which device
    0,
)
x = torch.zeros(
    2,
    device=(
        "cuda"  # here
        if torch.cuda.is_available()
        else "cpu"
    ),
)
