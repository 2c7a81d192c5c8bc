import torch_npu
import torch

move = lambda x, device="npu": x.to(device)
parts = list(map(lambda t: t.npu(), [torch.ones(1)]))
moved = [each.npu(non_blocking=True) for each in parts if not each.is_npu]
