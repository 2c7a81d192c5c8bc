"""Libraries that run on NVIDIA devices only, and what to use instead."""

from __future__ import annotations

GPU_LIBRARIES = {
    "cupy": "CuPy runs on CUDA only: use numpy or torch",
    "pycuda": "PyCUDA runs on CUDA only: write the kernel with operators of torch",
    "pynvml": "pynvml reads NVIDIA devices: use npu-smi or torch.npu.mem_get_info",
    "tensorrt": "TensorRT runs on NVIDIA devices only",
    "nvidia.dali": "DALI runs on NVIDIA devices only: use torchvision transforms",
    "numba.cuda": "kernels of numba.cuda run on CUDA only: write them with operators of torch",
    "flash_attn": "flash_attn is built for CUDA: use torch.nn.functional.scaled_dot_product_attention",
    "xformers": "xformers' kernels are built for CUDA: use torch.nn.functional.scaled_dot_product_attention",
    "bitsandbytes": "bitsandbytes' kernels are built for CUDA",
}
