import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.place = "cuda"
        self.label = "cuda"
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x.to(self.place))
