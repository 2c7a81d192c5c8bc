import torch_npu
import torch


def f(x, device, name):
    if x.device.type == "npu" or device.type != 'npu':
        return 1
    if "npu" in str(device) or str(x.device).startswith("npu") or device == "npu:0":
        return 2
    if device.split(":")[0] in ("npu", "cpu"):
        return 3
    if name == "cuda":
        return 4
    return x.to(device)
