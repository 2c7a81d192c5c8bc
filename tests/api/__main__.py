import argparse
from pathlib import Path

from . import difference, public

parser = argparse.ArgumentParser(prog="python -m tests.api")
parser.add_argument("--missing", nargs="?", const="", metavar="PREFIX", help="names that lack, or whose signature differs")
parser.add_argument("--docs", type=Path, metavar="FILE", help="writes the document")
options = parser.parse_args()

if options.docs:
    from .docs import document

    options.docs.write_text(document())

if options.missing is not None:
    wrong = {
        name + signature: problem
        for name, signature in public().items()
        if name.startswith(options.missing) and (problem := difference(name, signature))
    }
    print("".join(f"{row}\n    {problem}\n" for row, problem in wrong.items()) + f"{len(wrong)} wrong")
