import torch_npu
import torch

if (device := "npu" if torch.npu.is_available() else "cpu") == "npu":
    x = torch.zeros(1).to(device)


def kind(value):
    match value:
        case {"device": "cuda"}:
            return torch.device("npu")
        case _:
            return None
