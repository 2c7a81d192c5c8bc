"""Writes the files of libopapi that the device table gives, and docs/aclnn.md.

    python codegen/device_ops.py --out build/generated            # headers under include/aclnnop/, sources under src/
    python codegen/device_ops.py --docs docs/aclnn.md             # the published table
    python codegen/device_ops.py --check docs/aclnn.md            # fails if the published table differs

A mistake in the table stops it with one sentence. A file is written only if its content changes.
"""

import argparse
import sys
from pathlib import Path

from device_docs import documentation
from device_entries import outputs
from device_table import read_device_table
from output_files import holds, write_if_changed
from table_rows import TableError

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", type=Path, default=ROOT / "softnpu" / "ops" / "aclnn.yaml")
    parser.add_argument("--out", type=Path, help="write headers and sources into this folder")
    parser.add_argument("--docs", type=Path, help="write the documentation into this file")
    parser.add_argument("--check", type=Path, help="fail if this file is not what --docs would write")
    options = parser.parse_args()
    try:
        functions = list(read_device_table(options.table).values())
    except TableError as error:
        sys.exit(str(error))
    for name, content in outputs(functions).items() if options.out else ():
        write_if_changed(options.out / name, content)
    if options.docs:
        write_if_changed(options.docs, documentation(functions))
    if options.check and not holds(options.check, documentation(functions)):
        sys.exit(f"{options.check}: out of step with the table, run `python codegen/device_ops.py --docs docs/aclnn.md`.")


if __name__ == "__main__":
    main()
