import torch_npu
import torch


class Runner:
    def __init__(self, args):
        self.is_cuda = args.cuda and torch.npu.is_available()
        self.use_cuda = args.cuda

    def run(self, x):
        return x.npu() if self.is_cuda else x
