"""Names of older versions: functions of torch, methods of tensors, gradients as operators, and switches."""

import logging
import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.compare import assert_close
from tests.support import rand

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


def test_operators_are_functions_of_torch():
    x, weight = rand(2, 4).float().npu(), rand(3, 4, seed=1).float().npu()
    assert_close(torch.npu_linear(x, weight), F.linear(x.cpu(), weight.cpu()))
    for name in (
        "npu_format_cast",
        "npu_batch_nms",
        "npu_bmmV2",
        "npu_ptiou",
        "npu_one_hot",
        "npu_get_float_status",
        "fast_gelu",
    ):
        assert getattr(torch, name) is getattr(torch_npu, name)


def test_torch_has_no_other_names_than_before():
    for name in ("npu_nonsense", "matmul_checksum", "nothing"):
        assert not hasattr(torch, name)
    with pytest.raises(AttributeError, match="module 'torch' has no attribute 'npu_nonsense'"):
        _ = torch.npu_nonsense


@DEVICES
def test_operators_are_methods_of_tensors(device):
    x = rand(2, 6, 8).float().to(device)
    assert_close(x.npu_confusion_transpose((0, 2, 1, 3), (2, 6, 2, 4), False), x.cpu().view(2, 6, 2, 4).transpose(1, 2))
    assert_close(x.npu_transpose((1, 0, 2)), x.cpu().transpose(0, 1))
    assert_close(x.npu_bmmV2(x.transpose(1, 2), []), x.cpu() @ x.cpu().transpose(1, 2))
    assert x.npu_dtype_cast(torch.float16).dtype == torch.float16


def test_a_storage_knows_its_format():
    x = rand(32, 16).npu()
    assert x.untyped_storage().npu_format() == 2 and x.npu_format_cast(29).untyped_storage().npu_format() == 29
    with pytest.raises(RuntimeError, match="this one is on cpu"):
        torch.ones(2).untyped_storage().npu_format()


def test_old_names_are_traced_by_compile():
    program = torch.compile(lambda x: torch.npu_linear(x, x).npu_transpose((1, 0)), backend="eager", fullgraph=True)
    x = rand(3, 3).float().npu()
    assert_close(program(x), (x.cpu() @ x.cpu().t()).t())


@DEVICES
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("samples", [0, 2])
def test_the_gradient_of_roi_align_is_an_operator(device, mode, samples):
    features = rand(2, 3, 9, 11).to(device).requires_grad_()
    rois = torch.tensor([[0, 1, 2, 7, 9], [1, 0.5, 0.5, 20, 12], [1, 3, 3, 4, 4]], dtype=torch.float64, device=device)
    out = torch_npu.npu_roi_align(features, rois, 0.7, 2, 3, samples, mode)
    grad = rand(*out.shape, seed=1).to(device)
    (expected,) = torch.autograd.grad(out, features, grad)
    for size in ((3, 2), (2, 3)):  # scripts give height and width in either order
        assert_close(torch_npu.npu_roi_alignbk(grad, rois, features.shape, *size, 0.7, samples, mode), expected.cpu())


def test_the_gradient_of_roi_align_refuses_other_shapes():
    rois = torch.zeros(2, 5)
    with pytest.raises(ValueError, match=r"the gradient is \[2, 3, 2, 2\], not \[2, 3, 4, 2\]"):
        torch_npu.npu_roi_alignbk(torch.ones(2, 3, 4, 2), rois, [1, 3, 5, 5], 2, 2, 1.0, 2)
    with pytest.raises(ValueError, match="roi_end_mode is 0, 1, 2 or 3, not 4"):
        torch_npu.npu_roi_alignbk(torch.ones(2, 3, 2, 2), rois, [1, 3, 5, 5], 2, 2, 1.0, 2, 4)


def test_without_rois_the_gradient_is_zero():
    found = torch_npu.npu_roi_alignbk(torch.ones(0, 3, 2, 2).npu(), torch.zeros(0, 5).npu(), [1, 3, 5, 5], 2, 2, 1.0, 2)
    assert_close(found, torch.zeros(1, 3, 5, 5))


@DEVICES
def test_the_gradients_of_deformable_convolution_are_an_operator(device):
    tensors = [rand(*shape, seed=i).float() for i, shape in enumerate(((2, 4, 6, 7), (5, 4, 3, 2), (2, 18, 6, 8), (5,)))]
    x, weight, offset, bias = (tensor.to(device).requires_grad_() for tensor in tensors)
    options = {"kernel_size": [2, 3], "stride": [1, 1, 1, 1], "padding": [1, 1, 1, 1]}
    out, samples = torch_npu.npu_deformable_conv2d(x, weight, offset, bias, **options)
    grad = rand(*out.shape, seed=9).float().to(device)
    expected = torch.autograd.grad(out, (x, weight, offset, bias), grad)
    found = torch_npu.npu_deformable_conv2dbk(x, grad, samples, weight, offset, **options)
    assert_close(found, tuple(each.cpu() for each in expected))
    with pytest.raises(ValueError, match=r"kernel_size is that of the weight, \[3, 2\], not \[3, 3\]"):
        torch_npu.npu_deformable_conv2d(x, weight, offset, bias, [3, 3], [1, 1, 1, 1], [1, 1, 1, 1])


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_mask_can_be_made_before_dropout(device, dtype):
    torch.manual_seed(0)
    x = rand(64, 64).to(dtype).to(device).requires_grad_()
    mask = torch_npu.npu_dropout_gen_mask(x.shape, p=0.25, dtype=dtype, device=x.device)
    assert mask.dtype == torch.uint8 and 0.7 < mask.float().mean().item() < 0.8
    y, same = torch.npu_dropout_do_mask(x, mask, 0.25)
    assert same is mask or torch.equal(same, mask)
    assert_close(y.detach(), (x.detach().cpu().float() * mask.cpu() / 0.75).to(dtype), rtol=None, atol=None)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert_close(grad, (mask.cpu() / 0.75).to(dtype), rtol=None, atol=None)
    with pytest.raises(ValueError, match="an element for each of the 4096 elements of the input, not 512"):
        torch_npu.npu_dropout_do_mask(x, mask[:8], 0.25)
    with pytest.raises(ValueError, match="a probability is 0 to 1, not 2"):
        torch_npu.npu_dropout_gen_mask([2], 2.0)


@DEVICES
def test_dropout_with_a_seed_returns_its_mask_and_seed(device):
    torch.manual_seed(0)
    x, seed = rand(64, 64).float().to(device).requires_grad_(), torch.ones(32, device=device)
    y, mask, same = torch.npu_dropoutV2(x, seed, p=0.5)
    assert same.data_ptr() == seed.data_ptr() and 0.4 < mask.float().mean().item() < 0.6
    assert_close(y.detach(), x.detach().cpu() * mask.cpu() * 2)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert_close(grad, mask.cpu() * 2.0)
    torch.manual_seed(0)
    assert torch.equal(torch.npu_dropoutV2(x, seed, 0.5)[1], mask)


@DEVICES
@pytest.mark.parametrize("old", [True, False])
def test_the_step_of_fairseq_is_that_of_adamw(device, old):
    step_of = torch.npu_bert_apply_adam
    lr, beta1, beta2, decay = 0.1, 0.9, 0.99, 0.01
    var = rand(7).to(device)
    m, v = torch.zeros_like(var), torch.zeros_like(var)
    twin = var.clone().requires_grad_()
    optimizer = torch.optim.AdamW([twin], lr, (beta1, beta2), 0.0, decay)
    for step in range(1, 4):
        grad = rand(7, seed=step).to(device)
        twin.grad = grad.clone()
        optimizer.step()
        size = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        rest = (lr, beta1, beta2, 0.0, grad, 0.0, 0.0, decay, size)
        found = step_of(var, m, v, *rest, 1) if old else step_of(*rest, adam_mode=1, out=(var, m, v))
        assert found[0].data_ptr() == var.data_ptr()
    assert_close(var, twin.detach().cpu())


@DEVICES
def test_the_step_of_bert_scales_the_gradient_and_decays(device):
    var, grad = rand(5).to(device), rand(5, seed=1).to(device)
    m, v = torch.zeros_like(var), torch.zeros_like(var)
    before, scaled = var.cpu().clone(), grad.cpu() / 4
    torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-6, grad, 2.0, 8.0, 0.01, out=(var, m, v))
    update = 0.1 * scaled / ((0.01 * scaled.square()).sqrt() + 1e-6)
    assert_close(var, before - 0.1 * (update + 0.01 * before))


@DEVICES
def test_the_step_of_adam(device):
    var, grad = rand(5).to(device), rand(5, seed=1).to(device)
    twin = var.clone().requires_grad_()
    twin.grad = grad.clone()
    torch.optim.Adam([twin], 0.1, (0.9, 0.99), 0.0).step()
    torch_npu.npu_apply_adam(0.9, 0.99, 0.1, 0.9, 0.99, 0.0, grad, False, False, out=(var, torch.zeros_like(var), var * 0))
    assert_close(var, twin.detach().cpu())


def test_a_step_of_adam_needs_its_tensors():
    with pytest.raises(TypeError, match=r"give them as out=\(var, m, v\)"):
        torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-6, torch.ones(2), 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match=r"m has the shape of grad, \[2\], not \[3\]"):
        torch_npu.npu_bert_apply_adam(
            0.1, 0.9, 0.99, 1e-6, torch.ones(2), 0.0, 0.0, 0.0, out=(torch.ones(2), torch.ones(3), torch.ones(2))
        )


def test_old_switches_do_nothing_and_say_so_once(python):
    program = """
import torch, torch_npu
for _ in range(3):
    torch.npu.set_start_fuzz_compile_step(3)
    torch.npu.global_step_inc()
    torch.npu.enable_graph_mode()
    torch.npu.launch_graph()
    torch.npu.disable_graph_mode()
assert not torch.npu.is_graph_mode()
"""
    text = python(program).stderr
    for name in ("set_start_fuzz_compile_step", "global_step_inc", "enable_graph_mode", "launch_graph", "disable_graph_mode"):
        assert text.count(f"torch.npu.{name} does nothing") == 1


def test_a_step_to_start_from_is_a_number(caplog):
    with caplog.at_level(logging.WARNING), pytest.raises(TypeError, match="takes the number of a step, not '3'"):
        torch.npu.set_start_fuzz_compile_step("3")


def test_copies_between_devices_have_their_old_module():
    import torch.npu.comm as comm

    x = rand(3).npu()
    assert_close(comm.broadcast_coalesced([x], [0])[0][0], x.cpu())
