import torch_npu
import torch


class Engine:
    def cuda(self):
        return "an engine"


def start(something):
    return something.cuda()


x = torch.ones(1).to("npu")
