"""cuda: the documentation mentions torch.cuda.is_available() and .cuda()."""
import torch

TEXT = "Install CUDA from nvidia.com/cuda"
HELP = """
cuda
cuda:0
"""
PATHS = ["/usr/local/cuda", "libcuda.so", "cuda.h"]
print("cuda", f"cuda {torch.__version__}", "torch.cuda", "nccl")
