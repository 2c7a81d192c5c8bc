import torch


class Batch:
    def __init__(self, x):
        self.x = x

    def cuda(self):
        self.x = self.x.cuda()
        return self


def train(batches):
    for batch in batches:
        batch = batch.cuda()
        print(batch.x.is_cuda)


own = Batch(torch.ones(1)).cuda()
