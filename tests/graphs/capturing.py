"""Capturing a function, and comparing a replayed result with the CPU."""

import torch

from tests.compare import assert_close


def capture(function, **options):
    """The graph of one call of function, and the call's result. `options` are those of torch.npu.graph."""
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        result = function()
    return graph, result


def assert_replayed(actual, expected):
    assert_close(actual, expected, rtol=1e-5, atol=1e-6)
