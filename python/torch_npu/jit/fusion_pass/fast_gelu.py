"""Exact GELU becomes npu::fast_gelu, x * sigmoid(1.702 x), which differs from it by up to 0.02."""

import torch

_EXACT = """
graph(%x):
    %kind = prim::Constant[value='none']()
    %out = aten::gelu(%x, %kind)
    return (%out)
"""
_FAST = """
graph(%x):
    %out = npu::fast_gelu(%x)
    return (%out)
"""


def fast_gelu_pass(jit_mod):
    """Replaces gelu in a traced or scripted module or function, in place. It is for one that was not called yet: torch keeps how
    it ran the graph before. So trace with check_trace=False, or save and load what was traced."""
    if not isinstance(jit_mod, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise TypeError(f"fast_gelu_pass takes what torch.jit.trace or torch.jit.script gives, not {type(jit_mod).__name__}")
    torch._C._jit_pass_custom_pattern_based_rewrite_graph(_EXACT, _FAST, jit_mod.graph)
