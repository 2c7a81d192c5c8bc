"""Which operators of a program run on npu, which fall back to the CPU, and which are missing: `python -m torch_npu.coverage`.

support.py answers for one name, operators.py for one overload.
"""
