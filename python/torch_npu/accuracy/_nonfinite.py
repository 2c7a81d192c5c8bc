"""Finds the first operator whose results are not finite although its inputs are."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..npu._describe import arguments
from . import _output
from ._places import Places
from ._shadow import Finding


def is_finite(values: Any) -> bool:
    tensors = [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
    return all(map(_output.is_finite, tensors))


class NonFinite:
    """An observer (npu/_watch.py). It stops at the first finding. It skips operators that get an infinite number as an
    argument."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.finding: Finding | None = None

    def __call__(self, op: Any, args: Any, kwargs: Any) -> Any:
        base = op._schema.name.partition("::")[2]
        if self.finding is not None or "empty" in base or "resize" in base or base in ("set_", "_local_scalar_dense"):
            return None
        if torch.npu.is_current_stream_capturing():
            return None
        numbers = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, float)]
        if not all(map(math.isfinite, numbers)):
            return None
        written = [each.name for each in op._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
        before = is_finite((args, kwargs)) if written and not op._schema.name.endswith("copy_") else None

        def finish(result: Any) -> None:
            names = [each.name for each in op._schema.arguments]
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            if self.finding is not None or is_finite((result, [given[name] for name in written if name in given])):
                return
            sources = (args, kwargs) if before is None and not written else [v for k, v in given.items() if k not in written]
            if before if before is not None else is_finite(sources):
                module, line = self._places.now()
                reason = "its results are not finite although its inputs are"
                self.finding = Finding(op._name, module, line, arguments(op, args, kwargs), reason)

        return finish
