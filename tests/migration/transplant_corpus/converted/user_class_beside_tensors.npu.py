import torch_npu
import torch


class Engine:
    def cuda(self):
        return "an engine"

    def to(self, place):
        return place


engine = Engine()
print(engine.cuda(), Engine().cuda(), engine.to("cuda"))
x = torch.ones(2).npu()
