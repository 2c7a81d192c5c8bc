"""`python -m torch_npu.distributed.run`: torchrun, with the additional option of the vendor's package."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import record

__all__ = ["parse_args"]

_TIERED = "--enable_tiered_parallel_tcpstore"


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Parses the arguments of torchrun. A tiered store is not offered."""
    parser = torchrun.get_args_parser()
    parser.add_argument(_TIERED, default="false", help="must be false: there is one store for all processes")
    parsed = parser.parse_args(args)
    if parsed.enable_tiered_parallel_tcpstore.lower() not in ("false", "0"):
        parser.error(f"{_TIERED} is not offered: leave it out, and all processes share one store")
    return parsed


@record
def main(args: Sequence[str] | None = None) -> None:
    torchrun.run(parse_args(args))


if __name__ == "__main__":
    main()
