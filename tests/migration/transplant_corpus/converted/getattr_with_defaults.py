import torch


def f(args, cfg, x):
    flag = getattr(args, "cuda", False)
    device = getattr(args, "device", "cuda")
    other = cfg.get("map_location", "cuda:0")
    if hasattr(x, "cuda"):
        x = x.cuda()
    return x.to(device), other, flag
