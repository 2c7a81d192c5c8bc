import torch

if torch.cuda.is_available():
    torch.cuda.set_device(0)
    print(torch.cuda.device_count(), torch.cuda.get_device_name(0))
    torch.cuda.empty_cache()
