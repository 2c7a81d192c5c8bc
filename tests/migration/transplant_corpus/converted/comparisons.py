import torch


def f(x, device, name):
    if x.device.type == "cuda" or device.type != 'cuda':
        return 1
    if "cuda" in str(device) or str(x.device).startswith("cuda") or device == "cuda:0":
        return 2
    if device.split(":")[0] in ("cuda", "cpu"):
        return 3
    if name == "cuda":
        return 4
    return x.to(device)
