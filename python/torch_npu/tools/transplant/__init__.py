"""The script transplant tool: converts PyTorch programs for CUDA into programs for npu.

    ms_fmk_transplt -i project -o converted            # writes converted/project_msft
    python -m torch_npu.transplant -i train.py -o train_npu.py

    cli         options, checks, exit status
    convert     one file: text in, text and changes out
    model       scopes, bindings and the interesting nodes of one Python file (LibCST)
    names       what a name stands for: torch.cuda through any alias; what kind of object an expression is
    flow        which strings end up as the name of a device or of a communication backend
    rules_*     the rewriting rules
    configs     shell scripts, YAML, JSON, TOML, INI and notebooks
    output      staging, in-place conversion and undo
    reports     csv, xlsx, log, JSON, HTML and SARIF

The tool does not import torch. A child process asks torch_npu which of the used functions are supported.
"""
