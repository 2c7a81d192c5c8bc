"""Compiled models kept on disk: not offered."""

from ...._offer import not_offered

_REASON = "models are not compiled into NPU graphs; call the model itself"


@not_offered(_REASON)
def cache_compile(func, *, dynamic=True, cache_dir=None, global_rank=None, tp_rank=None, pp_rank=None, **kwargs): ...


@not_offered(_REASON)
def readable_cache(cache_bin, print_output=True, file=None): ...
