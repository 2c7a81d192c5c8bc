"""`python msaccucmp.py compare ...`, the name that the toolkit has for cli.py. Runs by its path and as a module."""

from __future__ import annotations

import sys

from torch_npu.tools.accuracy.cli import main

if __name__ == "__main__":
    sys.exit(main())
