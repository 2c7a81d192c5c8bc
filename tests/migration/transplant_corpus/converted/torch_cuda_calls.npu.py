import torch_npu
import torch

if torch.npu.is_available():
    torch.npu.set_device(0)
    print(torch.npu.device_count(), torch.npu.get_device_name(0))
    torch.npu.empty_cache()
