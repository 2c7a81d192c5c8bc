"""get_ascend_op_info: lists the operators of host logs.

    python -m torch_npu.tools.op_info --host_log_folder $HOME/ascend/log/plog    # writes ascend_op_info_summary.txt

A line of the log that begins with "[INFO] ASCENDCL" and contains aclopCompile::aclOp describes an operator: "OpType: TYPE,
PARAMETERS". The summary has one line "TYPE PARAMETERS" for each combination.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def operators(folder: Path) -> list[str]:
    """The distinct texts "TYPE PARAMETERS" of the files *.log, in the order of their first line."""
    found: dict[str, None] = {}
    for path in sorted(folder.glob("*.log")):
        with path.open(errors="replace") as file:
            for line in file:
                if line.startswith("[INFO] ASCENDCL") and "aclopCompile::aclOp" in line and "OpType: " in line:
                    kind, _, parameters = line.split("OpType: ", 1)[1].rstrip().partition(", ")
                    found[f"{kind} {parameters}"] = None
    return list(found)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="get_ascend_op_info", description="Lists the operators of host logs.")
    parser.add_argument("--host_log_folder", type=Path, default=Path("."), help="folder of files *.log (the working directory)")
    options = parser.parse_args(arguments)
    target = Path("ascend_op_info_summary.txt")
    if not options.host_log_folder.is_dir():
        print(f"get_ascend_op_info: {options.host_log_folder} is not a folder; give the folder of the host logs", file=sys.stderr)
        return 1
    found = operators(options.host_log_folder)
    try:
        target.write_text("".join(f"{line}\n" for line in found))
    except OSError as error:
        print(f"get_ascend_op_info: {target} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    if not found:
        print(
            f"get_ascend_op_info: no log in {options.host_log_folder} names an operator; run with ASCEND_GLOBAL_LOG_LEVEL=1",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
