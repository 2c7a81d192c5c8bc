import torch

move = lambda x, device="cuda": x.to(device)
parts = list(map(lambda t: t.cuda(), [torch.ones(1)]))
moved = [each.cuda(non_blocking=True) for each in parts if not each.is_cuda]
