import torch_npu
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.extra = torch.ones(2)

    def npu(self, device=None):
        self.extra = self.extra.npu(device)
        return super().npu(device)


net = Net().npu()
