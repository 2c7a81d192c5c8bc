"""Commands for users: `npu-smi` (smi.py). A larger command has a package of its own here: coverage and verify. report makes their
HTML pages. `python -m torch_npu.doctor` is torch_npu/doctor.py."""
