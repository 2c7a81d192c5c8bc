import torch_npu
import torch


def f(args, cfg, x):
    flag = getattr(args, "cuda", False)
    device = getattr(args, "device", "npu")
    other = cfg.get("map_location", "npu:0")
    if hasattr(x, "npu"):
        x = x.npu()
    return x.to(device), other, flag
