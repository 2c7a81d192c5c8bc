"""Compilation of a traced model into an NPU graph: not offered."""

from ..._offer import not_offered
from . import inference, scope  # noqa: F401

_REASON = 'models are not compiled into NPU graphs; call the model itself, or torch.compile it with backend="npu"'


def _trace(*args): ...


def _accept(match): ...


@not_offered(_REASON)
def compile_fx(gm, example_inputs=None, options=None): ...


@not_offered(_REASON)
def register_replacement(
    search_fn,
    replace_fn,
    example_inputs,
    trace_fn=_trace,
    extra_check=_accept,
    search_fn_pattern=None,
    scalar_workaround=None,
    skip_duplicates=False,
): ...
