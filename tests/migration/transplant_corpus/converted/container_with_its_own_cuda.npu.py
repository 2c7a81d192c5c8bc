import torch_npu
import torch


class Batch:
    def __init__(self, x):
        self.x = x

    def cuda(self):
        self.x = self.x.npu()
        return self

    npu = cuda


def train(batches):
    for batch in batches:
        batch = batch.npu()
        print(batch.x.is_npu)


own = Batch(torch.ones(1)).cuda()
