import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.extra = torch.ones(2)

    def cuda(self, device=None):
        self.extra = self.extra.cuda(device)
        return super().cuda(device)


net = Net().cuda()
