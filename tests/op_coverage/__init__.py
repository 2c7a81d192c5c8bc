"""Makes docs/ops.md by running the samples of PyTorch's operator and module databases: how each overload ran on npu.

scripts/ops-docs                                  writes docs/ops.md
python -m tests.op_coverage --check docs/ops.md   one sample per entry: fails if an overload ran otherwise than the table says
"""
