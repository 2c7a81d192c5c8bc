"""Does a converted project train as the original? `python -m torch_npu.tools.verify ORIGINAL CONVERTED [--main FILE] [-- args]`.

| file | contents |
|---|---|
| command.py | the command: checks, both runs, the answer |
| worker.py | one run in its own process: losses, gradients and outputs of modules |
| randomness.py | random operators of npu draw from the CPU's generator |
| compare.py | where two runs part |
"""
