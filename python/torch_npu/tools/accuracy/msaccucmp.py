"""`python msaccucmp.py compare ...`, the name that the toolkit has for cli.py. Runs by its path and as a module."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Python puts the folder of a program that runs by its path first. The folder's html.py would hide Python's own.
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.realpath(each) != here]

from torch_npu.tools.accuracy.cli import main

if __name__ == "__main__":
    sys.exit(main())
