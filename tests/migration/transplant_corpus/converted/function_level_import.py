def count():
    import torch

    return torch.cuda.device_count()


def torch_free():
    return "cuda"
