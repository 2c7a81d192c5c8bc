"""The operator sweep: every entry of PyTorch's operator and module databases, npu against the CPU. See docs/testing.md.

python -m tests.ops --quick                     the set that scripts/test runs
python -m tests.ops --full --resume             every case, with all its samples; goes on where a run was interrupted
python -m tests.ops add/float32/forward         one case, in this process, with its traceback
"""
