from safetensors.torch import load_file
import torch

state = load_file("model.safetensors", device="cuda")
generator = torch.Generator(device="cuda").manual_seed(0)
noise = torch.randn((1, 2), generator=generator, device="cuda", dtype=torch.float16)
pinned = torch.ones(1).pin_memory("cuda")
