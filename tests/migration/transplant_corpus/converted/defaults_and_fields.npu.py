from dataclasses import dataclass

import torch_npu
import torch


@dataclass
class Config:
    device: str = "npu"
    title: str = "cuda"


class Trainer:
    default_device = "npu:0"

    def __init__(self, model, where="npu", label="cuda"):
        self.model = model.to(where)
        self.label = label


def get_device():
    return "npu" if torch.npu.is_available() else "cpu"


def get_title():
    return "cuda"
