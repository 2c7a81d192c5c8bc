"""Commands for users: `npu-smi` (smi.py). `python -m torch_npu.doctor` is one level up."""
