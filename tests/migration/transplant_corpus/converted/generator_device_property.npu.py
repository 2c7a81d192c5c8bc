import torch_npu
import torch


class Model:
    @property
    def device(self):
        return torch.device("npu")

    @property
    def place(self):
        return "npu"

    def load(self, path):
        return torch.load(path, map_location=self.place)
