"""`python msaccucmp.py compare ...`: runs cli.py under the file name of the vendor's toolkit, by its path or as a module."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Python puts the folder of a program on sys.path first. The file html.py in this folder would hide Python's module html.
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.realpath(each) != here]

from torch_npu.tools.accuracy.cli import main

if __name__ == "__main__":
    sys.exit(main())
