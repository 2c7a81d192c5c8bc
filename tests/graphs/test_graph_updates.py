"""Captured operators get other arguments between replays: task groups and handlers."""

import pytest
import torch

from tests.graphs.capturing import assert_replayed, capture
from tests.support import cached

pytestmark = cached


def test_a_task_group_takes_other_arguments():
    x = torch.full((4,), 3.0, device="npu")
    out = torch.zeros(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        torch.npu.graph_task_group_begin(stream)
        torch.mul(x, 2, out=out)
        group = torch.npu.graph_task_group_end(stream)
    update = torch.npu.Stream()
    with torch.npu.stream(update):
        torch.npu.graph_task_update_begin(update, group)
        torch.mul(x, 5, out=out)
        torch.npu.graph_task_update_end(update)
    assert_replayed(out, torch.zeros(4))
    graph.replay()
    assert_replayed(out, torch.full((4,), 15.0))
    with torch.npu.stream(update):
        torch.npu.graph_task_update_begin(update, group)
        torch.exp(x, out=out)
        with pytest.raises(RuntimeError, match="aclnnExp"):
            torch.npu.graph_task_update_end(update)


def test_operators_with_a_handler_are_updated_between_replays():
    @torch.npu.register_npu_graph_handler(["pow.Tensor_Scalar", "pow.Tensor_Scalar_out"])
    class PowHandler(torch.npu.NpuGraphOpHandler):
        UPDATE_SPECS = {"pow.Tensor_Scalar_out": [("arg", 1, "exponent")]}  # noqa: RUF012

        @classmethod
        def prepare_capture(cls, func, args, kwargs):
            return torch.ops.aten.pow.Tensor_Scalar_out, args, {"out": torch.empty_like(args[0])}

    x = torch.full((4,), 2.0, device="npu")
    graph, y = capture(lambda: (x + 1).pow(2) + 1, auto_dispatch_capture=True)
    for exponent in (2, 3, 4):
        graph.replay()
        graph.update(cpu_update_input=[{"exponent": exponent}])
        assert_replayed(y, torch.full((4,), 3.0**exponent + 1))
    with pytest.raises(RuntimeError, match="1 operators"):
        graph.update([{}, {}])
    with pytest.raises(RuntimeError, match="Cannot cast two"):
        graph.update([{"exponent": "two"}])
    graph.update([{"exponent": 5}])
    graph.replay()
    assert_replayed(y, torch.full((4,), 3.0**5 + 1))

    def long():
        powers, total = (x + 1).pow(2), torch.zeros(4, device="npu")
        for _ in range(2000):
            total.add_(powers)
        return total

    graph, total = capture(long, auto_dispatch_capture=True)
    for exponent in (2, 3):
        graph.replay()  # more tasks than a stream can queue; the update below lets it continue
        graph.update([{"exponent": exponent}])
        assert_replayed(total, torch.full((4,), 2000 * 3.0**exponent))


def test_handlers_decide_what_is_kept_changed_and_returned():
    seen = []

    @torch.npu.register_npu_graph_handler("add.out")
    class AddHandler(torch.npu.NpuGraphOpHandler):
        UPDATE_SPECS = {"add.out": [("kwarg", "alpha", "factor")]}  # noqa: RUF012

        @classmethod
        def record_wrap_kwarg(cls, key, value, tensor_param_names):
            seen.append((key, key in tensor_param_names))
            return super().record_wrap_kwarg(key, value, tensor_param_names)

        @classmethod
        def postprocess_result(cls, result, kwargs):
            seen.append(("result", result is kwargs["out"]))
            return super().postprocess_result(result, kwargs)

        @classmethod
        def update_args(cls, dispatch_record, update_input):
            super().update_args(dispatch_record, {"factor": update_input["factor"] * 10})

    assert AddHandler.get_update_specs("add.out") == [("kwarg", "alpha", "factor")]
    assert AddHandler.get_update_specs("mul.out") == []
    assert AddHandler.prepare_capture("f", (1,), {}) == ("f", (1,), {})
    x, out = torch.ones(3, device="npu"), torch.zeros(3, device="npu")
    graph, _ = capture(lambda: torch.ops.aten.add.out(x, x, alpha=2, out=out), auto_dispatch_capture=True)
    assert seen == [("alpha", False), ("out", True), ("result", True)]
    graph.replay()
    graph.update([{"factor": 3}])
    assert_replayed(out, torch.full((3,), 31.0))
