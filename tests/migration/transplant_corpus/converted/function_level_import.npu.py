def count():
    import torch_npu
    import torch

    return torch.npu.device_count()


def torch_free():
    return "cuda"
