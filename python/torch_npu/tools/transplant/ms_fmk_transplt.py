"""python3 ms_fmk_transplt.py -i INPUT -o OUTPUT: the command under the name of its file in the CANN toolkit."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[3])  # the folder that holds torch_npu
    import torch_npu  # noqa: F401  (runs the command, because the process was started for it, and ends)
