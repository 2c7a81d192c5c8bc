"""torch_npu.jit: passes over TorchScript."""

import io

import pytest
import torch
import torch_npu
from torch_npu.jit.fusion_pass.fast_gelu import fast_gelu_pass


@pytest.mark.parametrize("run", [torch_npu.jit.optimize, fast_gelu_pass])
def test_gelu_becomes_fast_gelu(run):
    x = torch.linspace(-3, 3, 20, device="npu")
    traced = torch.jit.trace(torch.nn.GELU(), x, check_trace=False)
    run(traced)
    assert "npu::fast_gelu" in str(traced.graph) and "aten::gelu" not in str(traced.graph)
    torch.testing.assert_close(traced(x), x * torch.sigmoid(1.702 * x), rtol=1e-4, atol=1e-5)


def test_a_program_that_has_run_is_optimized_after_it_is_loaded_again():
    x = torch.linspace(-3, 3, 20, device="npu")
    traced = torch.jit.trace(torch.nn.GELU(), x)
    torch_npu.jit.optimize(traced)
    torch.testing.assert_close(traced(x), torch.nn.functional.gelu(x))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(x), x * torch.sigmoid(1.702 * x), rtol=1e-4, atol=1e-5)


def test_the_fused_operator_is_registered_when_it_is_needed(child):
    done = child(
        """
        import torch, torch_npu
        scripted = torch.jit.script(torch.nn.GELU())
        torch_npu.jit.optimize(scripted)
        print(scripted(torch.zeros(2, device="npu")))
        """
    )
    assert done.stdout == "tensor([0., 0.], device='npu:0')\n", done.stderr


def test_another_gelu_is_left_alone():
    traced = torch.jit.trace(torch.nn.GELU(approximate="tanh"), torch.ones(2, device="npu"))
    before = str(traced.graph)
    torch_npu.jit.optimize(traced)
    assert str(traced.graph) == before


def test_only_torchscript_is_accepted():
    with pytest.raises(TypeError, match=r"takes a result of torch\.jit\.trace or torch\.jit\.script, not GELU"):
        torch_npu.jit.optimize(torch.nn.GELU())
