import torch


class Model:
    @property
    def device(self):
        return torch.device("cuda")

    @property
    def place(self):
        return "cuda"

    def load(self, path):
        return torch.load(path, map_location=self.place)
