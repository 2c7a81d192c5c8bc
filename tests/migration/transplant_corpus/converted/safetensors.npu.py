from safetensors.torch import load_file
import torch_npu
import torch

state = load_file("model.safetensors", device="npu")
generator = torch.Generator(device="npu").manual_seed(0)
noise = torch.randn((1, 2), generator=generator, device="npu", dtype=torch.float16)
pinned = torch.ones(1).pin_memory("npu")
