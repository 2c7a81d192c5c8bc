import torch.nn as nn


class Base(nn.Module):
    pass


class Child(Base):
    def move(self):
        return self.cuda()


class Plain:
    def start(self):
        return self.cuda()

    def cuda(self):
        return 1


net = Child().cuda()
