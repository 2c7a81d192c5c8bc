import torch

if (device := "cuda" if torch.cuda.is_available() else "cpu") == "cuda":
    x = torch.zeros(1).to(device)


def kind(value):
    match value:
        case {"device": "cuda"}:
            return torch.device("cuda")
        case _:
            return None
