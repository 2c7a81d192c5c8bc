from dataclasses import dataclass

import torch


@dataclass
class Config:
    device: str = "cuda"
    title: str = "cuda"


class Trainer:
    default_device = "cuda:0"

    def __init__(self, model, where="cuda", label="cuda"):
        self.model = model.to(where)
        self.label = label


def get_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def get_title():
    return "cuda"
