import torch


class Runner:
    def __init__(self, args):
        self.is_cuda = args.cuda and torch.cuda.is_available()
        self.use_cuda = args.cuda

    def run(self, x):
        return x.cuda() if self.is_cuda else x
