import torch_npu
import torch


class A:
    lib = torch.npu

    def f(self):
        return self.lib.is_available()


mod = torch.npu
seed = mod.manual_seed
seed(1)
torch.npu.random.manual_seed(2)
