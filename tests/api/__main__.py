import argparse

from . import difference, public

parser = argparse.ArgumentParser(prog="python -m tests.api")
parser.add_argument("--missing", nargs="?", const="", metavar="PREFIX", help="names that lack, or whose signature differs")
options = parser.parse_args()

wrong = 0
for name, signature in public().items():
    if name.startswith(options.missing or ""):
        problem = difference(name, signature)
        if problem:
            wrong += 1
            print(f"{name}{signature}\n    {problem}")
print(f"{wrong} wrong")
