"""Other forms of an overload that a sample reached: out= and in place, called with the same arguments.

forms = Forms()
recorder = Recorder(on_call=forms.note)
for call in forms.take():            # outside of the recorder's calls
    call()
"""

import copy
import functools

import torch
from torch.utils import _pytree

from .samples import on_npu


def written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def plain(arguments):
    return [(argument.name, str(argument.type)) for argument in arguments if not written(argument)]


def out_forms(op):
    """Overloads with the same arguments, and one written argument for each result."""
    packet = op.overloadpacket
    for name in packet.overloads():
        form = getattr(packet, name)
        outs = [argument.name for argument in form._schema.arguments if written(argument)]
        tensors = all(str(argument.type) == "Tensor" for argument in form._schema.arguments if written(argument))
        same = plain(form._schema.arguments) == plain(op._schema.arguments)
        if tensors and same and len(outs) == len(op._schema.returns):
            yield form, outs


def inplace_form(op):
    packet = getattr(getattr(torch.ops, op.namespace), f"{op._schema.name.partition('::')[2]}_", None)
    form = getattr(packet, op._overloadname, None) if packet else None
    if form is None or [item.name for item in form._schema.arguments] != [item.name for item in op._schema.arguments]:
        return None
    return form


def call_out(op, form, outs, args, kwargs):
    args, kwargs = on_npu((args, kwargs))
    result = op(*args, **kwargs)
    results = list(result) if isinstance(result, tuple | list) else [result]
    form(
        *args,
        **kwargs,
        **{name: torch.empty(0, dtype=item.dtype, device="npu") for name, item in zip(outs, results, strict=True)},
    )


def call_inplace(form, args, kwargs):
    args, kwargs = on_npu((args, kwargs))
    form(*args, **kwargs)


def forms_of(op, args, kwargs):
    for form, outs in out_forms(op):
        yield f"{form._name}", functools.partial(call_out, op, form, outs, args, kwargs)
    form = inplace_form(op)
    if form is not None:
        yield f"{form._name}", functools.partial(call_inplace, form, args, kwargs)


class Forms:
    """Remembers the first call of each functional overload per dtype, up to a limit."""

    def __init__(self, dtypes=2):
        self._most = dtypes
        self._seen = {}
        self._waiting = []

    def note(self, op, dtype, twin):
        seen = self._seen.setdefault(op._name, set())
        if twin is None or dtype in seen or len(seen) >= self._most or any(map(written, op._schema.arguments)):
            return
        if any(item.alias_info is not None for item in op._schema.returns):
            return
        seen.add(dtype)
        args, kwargs = copy.deepcopy((twin.args, twin.kwargs))
        if all(leaf.layout == torch.strided for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)):
            self._waiting += forms_of(op, args, kwargs)

    def take(self):
        waiting, self._waiting = self._waiting, []
        return waiting
