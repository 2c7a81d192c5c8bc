import torch


class Plymouth:
    cuda = "Barracuda"

    def __init__(self):
        self.cuda_cores = 8
        self.nccl = "no communication"


fish = Plymouth()
print(fish.cuda, fish.cuda_cores, torch.__version__)
