"""The module and the Python line that called an operator. For an operator of the backward pass, these are of the forward call.

Autograd numbers its nodes. A kernel of the forward pass runs just after its node got its number. So the number of a node leads to
the forward call.
"""

from __future__ import annotations

import collections
from typing import Any

import torch

from ..npu._describe import caller
from ._modules import Modules

_KEPT = 200_000


class Places:
    """An observer (npu/_watch.py). It must run before the observers that call now()."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._known: collections.OrderedDict[int, tuple[str, str]] = collections.OrderedDict()

    def __call__(self, op: Any, args: Any, kwargs: Any) -> None:
        if torch._C._current_autograd_node() is None:
            self._known[torch.autograd._get_sequence_nr() - 1] = self._modules.path, caller()
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)

    def now(self) -> tuple[str, str]:
        """Module and line; ("", "") if unknown."""
        node = torch._C._current_autograd_node()
        if node is None:
            return self._modules.path, caller()
        module, line = self._known.get(node._sequence_nr(), ("", ""))
        return module, f"the backward pass of {line}" if line else "the backward pass"
