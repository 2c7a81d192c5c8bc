"""The functions and modules of torch_npu.contrib give what plain PyTorch gives."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch import nn
from torch_npu.contrib import function, module
from torch_npu.contrib.function.anchor_generator import box_dtype_check
from torch_npu.contrib.module import channel_shuffle, deform_conv, focus, multihead_attention

from tests.compare import assert_close
from tests.support import rand


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("split", [True, False])
def test_a_channel_shuffle_equals_shuffling_the_joined_halves(device, split):
    x1, x2 = (rand(2, 4, 3, 3, seed=i).float().to(device).requires_grad_() for i in (0, 1))
    out = module.ChannelShuffle(8, split_shuffle=split)(x1, x2)
    y = torch.cat(out, 1) if split else out
    expected = F.channel_shuffle(torch.cat((x1, x2), 1).detach().cpu(), 2)
    assert_close(y.detach(), expected)
    weight = rand(2, 8, 3, 3, seed=2).float()
    (y * weight.to(device)).sum().backward()
    twins = [x.detach().cpu().requires_grad_() for x in (x1, x2)]
    (F.channel_shuffle(torch.cat(twins, 1), 2) * weight).sum().backward()
    assert_close((x1.grad, x2.grad), (twins[0].grad, twins[1].grad))


def test_a_channel_shuffle_has_no_state_and_two_groups():
    assert not module.ChannelShuffle(8).state_dict()
    with pytest.raises(ValueError, match="groups is 2"):
        module.ChannelShuffle(9, groups=3)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_channels_are_selected_forwards_and_backwards(device):
    x1, x2 = (rand(2, 3, 2, seed=i).to(device).requires_grad_() for i in (0, 1))
    order, first, second = (torch.tensor(each, device=device) for each in ([0, 3, 1, 4, 2, 5], [0, 2, 4], [1, 3, 5]))
    expected = torch.stack((x1, x2), 2).flatten(1, 2).detach().cpu()
    left, right = order[:3], order[3:]
    assert_close(channel_shuffle.indexselect_full_implementation_forward(x1, x2, order).detach(), expected)
    halves = channel_shuffle.indexselect_half_implementation_forward(x1, x2, left, right)
    assert_close(tuple(half.detach() for half in halves), (expected[:, :3], expected[:, 3:]))
    full, half = channel_shuffle.IndexSelectFullImplementation, channel_shuffle.IndexSelectHalfImplementation
    assert torch.autograd.gradcheck(lambda *x: full.apply(*x, order, first, second), (x1, x2))
    assert torch.autograd.gradcheck(lambda *x: half.apply(*x, left, right, first, second), (x1, x2))


def test_a_channel_shuffle_checks_the_number_of_channels():
    layer = module.ChannelShuffle(8)
    with pytest.raises(ValueError, match=r"ChannelShuffle\(8\) takes two tensors \[n, 4, ...\], not \[2, 8, 3\]"):
        layer(torch.ones(2, 4, 3), torch.ones(2, 8, 3))
    with pytest.raises(ValueError, match=r"not \[4\]"):
        layer.check_self(torch.ones(4))


def test_a_prefetcher_is_one_batch_ahead():
    taken = []
    loader = ((taken.append(i), torch.full((2,), float(i)), torch.tensor(i))[1:] for i in range(3))
    prefetcher = module.Prefetcher(loader, torch.npu.Stream())
    assert taken == [0] and prefetcher.next_input.is_npu
    prefetcher.preload()
    assert taken == [0, 1] and prefetcher.next()[0].tolist() == [1, 1] and taken == [0, 1, 2]


def test_a_prefetcher_gives_every_batch_on_the_device():
    data = [(rand(4, 3, seed=i).float(), torch.tensor([i])) for i in range(3)]
    prefetcher = module.Prefetcher(data)
    for x, label in data:
        got, target = prefetcher.next()
        assert got.device.type == target.device.type == "npu" and torch.equal(got.cpu(), x) and target.item() == label.item()
    assert prefetcher.next() == (None, None)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_smoothed_labels(device):
    pred, target = rand(4, 5).float(), torch.tensor([0, 2, 4, 1])
    loss = module.LabelSmoothingCrossEntropy(5, 0.1)(pred.to(device), target.to(device))
    labels = torch.full((4, 5), 0.1 / 4).scatter(1, target.unsqueeze(1), 0.9)
    assert_close(loss, F.cross_entropy(pred, labels))


@pytest.mark.parametrize("name, plain", [("Mish", F.mish), ("SiLU", F.silu), ("Swish", F.silu)])
def test_activations(name, plain):
    x = rand(3, 4).float()
    assert_close(getattr(module, name)()(x.npu()), plain(x))


def test_a_bidirectional_lstm():
    layer = module.BiLSTM(3, 4)
    plain = nn.LSTM(3, 4, bidirectional=True)
    for suffix, own in (("", layer.fw_rnn), ("_reverse", layer.bw_rnn)):
        for kind in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            getattr(plain, kind + suffix).data.copy_(getattr(own, kind))
    x = rand(5, 2, 3).float()
    assert_close(layer.npu()(x.npu()).detach(), plain(x)[0].detach())


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_modulated_deformable_convolution(device):
    torch.manual_seed(0)
    layer = module.ModulatedDeformConv(4, 6, 3, stride=2, padding=1, deformable_groups=2).to(device)
    x = rand(2, 4, 7, 7).float().to(device).requires_grad_()
    out = layer(x)
    expected = F.conv2d(x, layer.weight, None, 2, 1) / 2
    assert_close(out.detach(), expected.detach().cpu())
    weights = rand(*out.shape).float().to(device)
    (out * weights).sum().backward()
    grads = torch.autograd.grad((expected * weights).sum(), (x, layer.weight))
    assert layer.conv_offset.weight.grad.abs().sum() > 0 and layer.bias.grad.shape == (6,)
    assert_close(layer.weight.grad, grads[1].cpu())


def test_a_deformable_convolution_moves_y_before_x():
    layer = module.DCNv2(1, 1, 1, bias=False, pack=False)
    nn.init.ones_(layer.weight)
    x = torch.arange(9.0).view(1, 1, 3, 3)
    offset = torch.zeros(1, 2, 3, 3)
    offset[:, 0] = 1
    out = layer((x, offset, torch.ones(1, 1, 3, 3)))
    assert out[0, 0, 0].tolist() == [3, 4, 5] and out[0, 0, 2].tolist() == [0, 0, 0]


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_deformable_convolution_looks_between_pixels(device, with_bias):
    x, weight, bias, mask = (t.float() for t in (rand(2, 1, 3, 4), rand(2, 1, 1, 1), rand(2), rand(2, 1, 3, 4, seed=1)))
    offset = torch.zeros(2, 2, 3, 4)
    offset[:, 1] = 0.5

    def expected(x, mask, weight, bias):
        between = (x + F.pad(x, (0, 1))[..., 1:]) / 2
        return between * mask * weight.view(1, 2, 1, 1) + (bias.view(1, 2, 1, 1) if with_bias else 0)

    twins = [t.clone().requires_grad_() for t in (x, mask, weight, bias)]
    given = [t.to(device).requires_grad_() for t in (x, mask, weight, bias)]
    convolve, orders = deform_conv.ModulatedDeformConv2dFunction.apply, torch.tensor([1, 0], device=device)
    last = given[3] if with_bias else None
    out = convolve(given[0], offset.to(device), *given[1:3], last, with_bias, 1, 0, 1, 1, 1, orders, orders)
    y = expected(*twins)
    assert_close(out.detach(), y.detach())
    factor = rand(*y.shape, seed=3).float()
    (out * factor.to(device)).sum().backward()
    (y * factor).sum().backward()
    count = 4 if with_bias else 3
    assert_close(tuple(t.grad for t in given[:count]), tuple(t.grad for t in twins[:count]))


def test_a_deformable_convolution_begins_as_a_convolution():
    torch.manual_seed(0)
    layer = module.ModulatedDeformConv(16, 8, 3)
    nn.init.ones_(layer.bias)
    nn.init.ones_(layer.conv_offset.weight)
    before = layer.weight.detach().clone()
    layer.init_param()
    assert not torch.equal(layer.weight, before) and 0.9 / 12 < layer.weight.abs().max() <= 1 / 12
    assert not (layer.bias.any() or layer.conv_offset.weight.any() or layer.conv_offset.bias.any())


@pytest.mark.parametrize(
    "kind", [module.NpuDropPath, module.NpuCachedDropout, module.NpuFairseqDropout, module.DropoutWithByteMask]
)
def test_dropouts(kind):
    layer, x = kind(0.5), torch.ones(1000, 4, device="npu")
    y = layer(x)
    assert set(y.unique().tolist()) == {0.0, 2.0} and y.mean().item() == pytest.approx(1, abs=0.2)
    assert torch.equal(layer.eval()(x), x)
    if kind is module.NpuDropPath:
        assert all(len(set(row)) == 1 for row in y.tolist())


def test_dropout_by_a_function():
    x = torch.ones(4000, device="npu", requires_grad=True)
    y = function.dropout_with_byte_mask(x, 0.25)
    y.sum().backward()
    assert set(y.unique().tolist()) == {0.0, torch.tensor(4 / 3).item()} and y.mean().item() == pytest.approx(1, abs=0.1)
    assert torch.equal(x.grad, y.detach())
    assert torch.equal(function.dropout_with_byte_mask(x, 0.25, training=False), x)
    for options, message in (({"p": 1.5}, "0 to 1, not 1.5"), ({"inplace": True}, "does not work in place")):
        with pytest.raises(ValueError, match=message):
            function.dropout_with_byte_mask(x, **options)


def test_npu_dropout_ensembles_are_accepted_and_have_no_effect():
    model = nn.Linear(2, 2)
    assert module.NpuCachedDropout.enable_dropout_ensemble(model) is None
    assert module.NpuDropPath.enable_droppath_ensemble(model) is None
    mask = module.NpuCachedDropout(0.5)([(8, 8), torch.float16, "npu"])
    assert mask.dtype == torch.uint8 and mask.shape == (8, 8) and mask.device.type == "npu"


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_the_focus_layer(device):
    layer = module.Focus(2, 3, act=False).eval().to(device)
    x = rand(1, 2, 4, 6).float()
    quarters = torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), 1)
    expected = F.conv2d(quarters, layer.conv.conv.weight.detach().cpu()) / math.sqrt(1 + 1e-5)
    assert_close(layer(x.to(device)).detach(), expected)


def test_parts_of_the_focus_layer():
    assert (focus.autopad(3), focus.autopad((3, 5)), focus.autopad(3, 0)) == (1, [1, 2], 0)
    x = torch.arange(8.0).view(1, 1, 2, 4)
    for given in (x, x.npu()):
        assert [quarter.flatten().tolist() for quarter in focus.fast_slice(given)] == [[0, 2], [4, 6], [1, 3], [5, 7]]
    layer = focus.Conv(2, 3, k=3, s=2).train().npu()
    x = rand(4, 2, 6, 6).float()
    plain = F.conv2d(x, layer.conv.weight.detach().cpu(), None, 2, 1)
    norm = F.batch_norm(plain, None, None, training=True)
    assert_close(layer(x.npu()).detach(), F.leaky_relu(norm, 0.1))
    assert_close(layer.fuseforward(x.npu()).detach(), F.leaky_relu(plain, 0.1))


@pytest.mark.parametrize("kind", [module.LinearQuant, module.LinearA8W8Quant])
def test_a_linear_layer_of_integers(kind):
    weight, x = (
        torch.randint(-8, 8, shape, generator=torch.Generator().manual_seed(0), dtype=torch.int8) for shape in ((8, 16), (3, 16))
    )
    layer = kind(16, 8, output_dtype=torch.float16)
    layer.weight.data, layer.scale.data, layer.bias.data = weight, rand(8).float(), torch.arange(8, dtype=torch.int32)
    expected = ((x.long() @ weight.long().t() + torch.arange(8)) * layer.scale).half()
    assert_close(layer.npu()(x.npu()), expected, rtol=1e-3)
    packed = kind(2, 8, bias=False, output_dtype=torch.int32)
    packed.weight.data = torch_npu.npu_convert_weight_to_int4pack(weight.int())
    assert_close(packed.npu()(torch_npu.npu_convert_weight_to_int4pack(x.int()).npu()), (x.int() @ weight.int().t()))
    with pytest.raises(ValueError, match="both int8 or both int32"):
        layer(x.npu().int())


def test_a_linear_layer_with_a_quantised_weight():
    weight = torch.randint(-8, 8, (8, 16), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    layer = module.LinearWeightQuant(16, 8)
    layer.weight.data, layer.antiquant_scale.data, layer.bias.data = weight, rand(8).float(), rand(8, seed=1).float()
    x = rand(3, 16).float()
    assert_close(layer.npu()(x.npu()), F.linear(x, weight * layer.antiquant_scale.cpu().unsqueeze(1), layer.bias.cpu()))
    groups = module.LinearWeightQuant(16, 8, False, antiquant_group_size=8)
    groups.weight.data, groups.antiquant_scale.data = weight, rand(8, 2).float()
    assert_close(groups(x), F.linear(x, weight * groups.antiquant_scale.repeat_interleave(8, 1)))


def test_a_convolution_of_integers():
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randint(-9, 9, shape, generator=generator, dtype=torch.int8) for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    layer = module.QuantConv2d(2, 3, 3, torch.float32, padding=1)
    layer.weight.data, layer.scale.data, layer.bias.data = weight, rand(3).float(), torch.arange(3, dtype=torch.int32)
    expected = (F.conv2d(x.double(), weight.double(), padding=1) + torch.arange(3).view(3, 1, 1)) * layer.scale.view(3, 1, 1)
    assert_close(layer.npu()(x.npu()), expected.float())


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_attention_of_flattened_batches(device):
    torch.manual_seed(0)
    layer, plain = module.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)
    plain.in_proj_weight.data = torch.cat([p.weight.data for p in (layer.q_proj, layer.k_proj, layer.v_proj)])
    plain.in_proj_bias.data = torch.cat([p.bias.data for p in (layer.q_proj, layer.k_proj, layer.v_proj)])
    plain.out_proj.load_state_dict(layer.out_proj.state_dict())
    q, k = rand(3, 4, 8).float(), rand(3, 5, 8).float()
    mask = rand(3, 1, 4, 5).float()
    out, weights = layer.to(device)(*(t.flatten(0, 1).to(device) for t in (q, k, k)), 3, 4, 5, key_padding_mask=mask.to(device))
    expected = plain(q, k, k, attn_mask=mask.expand(3, 2, 4, 5).flatten(0, 1))[0].flatten(0, 1)
    assert_close(out.detach(), expected.detach())
    assert weights is None
    old = {"a.in_proj_weight": plain.in_proj_weight.data, "a.in_proj_bias": plain.in_proj_bias.data}
    layer.upgrade_state_dict_named(old, "a")
    assert torch.equal(old["a.k_proj.weight"], layer.k_proj.weight.detach().cpu()) and "a.in_proj_weight" not in old
    with pytest.raises(NotImplementedError, match="does not offer before_softmax"):
        layer(q, k, k, 3, 4, 5, before_softmax=True)


def test_parts_of_the_attention():
    torch.manual_seed(0)
    layer = module.MultiheadAttention(8, 2).npu()
    x = rand(3, 4, 8).float().npu()
    heads = layer.transpose_for_scores(x)
    assert heads.shape == (3, 2, 4, 4) and torch.equal(heads[1, 1, 2], x[1, 2, 4:])
    flat = x.flatten(0, 1)
    assert_close(layer.multi_attn(flat, flat, flat, None, 3, 4).detach(), layer(flat, flat, flat, 3, 4, 4)[0].detach().cpu())
    assert layer.apply_sparse_mask(heads, 4, 4, 3) is heads
    layer.prepare_for_onnx_export_()
    layer.prepare_for_tpu_(anything=True)
    assert layer.onnx_trace and layer.tpu
    a, b = (rand(2, 3, 4, seed=i).npu().requires_grad_() for i in (0, 1))
    assert_close(multihead_attention.Matmul_transpose(a, b).detach(), (a @ b.mT).detach().cpu())
    assert torch.autograd.gradcheck(multihead_attention.Matmul_transpose, (a, b))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_fused_attention_of_hidden_states(device):
    batch, length, size = 2, 3, 128
    x, mask = rand(batch * length, size).float(), rand(batch, 1, length, length).float()
    kernels, biases = [rand(size, size, seed=i).float() / 10 for i in range(3)], [rand(size, seed=i).float() for i in range(3)]
    gamma, beta = rand(size, seed=5).float(), rand(size, seed=6).float()

    def expected(x):
        q, k, v = ((x @ w + b).view(batch, length, 2, 64).transpose(1, 2) for w, b in zip(kernels, biases, strict=True))
        return F.scaled_dot_product_attention(q, k, v, mask, scale=0.125).transpose(1, 2).reshape(-1, size)

    given = [t.to(device) for t in (x, mask, *kernels, *biases)]
    assert_close(function.npu_fused_attention(*given, 0.125, 1.0), expected(x))
    out, norm = function.npu_fused_attention_with_layernorm(*given, gamma.to(device), beta.to(device), scale=0.125)
    normed = F.layer_norm(x, (size,), gamma, beta)
    assert_close((out, norm), (expected(normed), normed))


def test_functions_of_attention_and_indexing():
    scores, mask = rand(2, 3, 4, 4).float(), rand(2, 1, 4, 4).float()
    out = function.fuse_add_softmax_dropout(False, nn.Dropout(0.5), mask.npu(), scores.npu(), 16)
    assert_close(out, torch.softmax(mask + scores / 4, -1))
    x = rand(2, 4, 4, 3).float()
    assert_close(function.roll(x.npu(), (-1, -2), (1, 2)), torch.roll(x, (-1, -2), (1, 2)))
    assert_close(function.matmul_transpose(x.npu(), x.npu()), x @ x.transpose(-1, -2))
    chosen = function.npu_fast_condition_index_put(x.npu(), x.npu() < 0, 7)
    expected = x.clone()
    expected[x < 0] = 7
    assert_close(chosen, expected)
    with pytest.raises(TypeError, match="condition is bool"):
        function.npu_fast_condition_index_put(x, x, 0)


def test_functions_of_detection():
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    scores = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.3, 0.6, 0.0]])
    found, labels = function.npu_multiclass_nms(boxes.npu(), scores.npu(), 0.15, 0.5, 5)
    assert labels.tolist() == [0, 1, 0, 1, 0] and found.shape == (5, 5)
    assert [round(s, 2) for s in found[:, 4].tolist()] == [0.9, 0.6, 0.3, 0.2, 0.0]
    many, classes = function.npu_batched_multiclass_nms(boxes.expand(2, 3, 4), scores.expand(2, 3, 3), 0.15, 0.5, 5)
    assert_close((many[1], classes[1]), (found.cpu(), labels.cpu()))
    for dtype in (torch.float16, torch.float32, torch.float64, torch.int64):
        assert_close(box_dtype_check(boxes.to(dtype).npu()), boxes.half() if dtype == torch.float16 else boxes)
    flags = function.npu_single_level_responsible_flags((4, 4), boxes.double(), (8, 8), 1)
    assert flags.nonzero().flatten().tolist() == [0, 15]
    deltas = function.npu_bbox_coder_encode_xyxy2xywh(boxes, boxes + 2)
    assert_close(function.npu_bbox_coder_decode_xywh2xyxy(boxes, deltas), boxes + 2)
    encoded = function.npu_bbox_coder_encode_yolo(boxes.double(), boxes.double() + 2, torch.tensor([8.0, 8, 8]))
    assert_close(encoded, torch.tensor([[0.75, 0.75, 0, 0]] * 3))
    with pytest.raises(ValueError, match=r"both sets of boxes are \[n, 4\]"):
        function.npu_bbox_coder_encode_yolo(boxes, boxes[:2], torch.ones(3))


def test_regions():
    x, rois = rand(1, 4, 8, 8).float().npu(), torch.tensor([[0.0, 1, 1, 5, 6]], device="npu")
    assert_close(module.ROIAlign((2, 2), 1.0, 2)(x, rois), torch_npu.npu_roi_align(x, rois, 1.0, 2, 2, 2, 3).cpu())
    pooled = module.PSROIPool(2, 2, 1.0, 2, 1)(x, rois.t().unsqueeze(0).contiguous())
    assert_close(pooled, torch_npu.npu_ps_roi_pooling(x, rois.t().unsqueeze(0).contiguous(), 1.0, 2, 1).cpu())
    with pytest.raises(ValueError, match="are group_size 7"):
        module.PSROIPool(3, 3)


def test_contrib_is_imported_on_first_use(child):
    program = """
        import sys, torch_npu
        print("torch_npu.contrib" in sys.modules)
        import torch_npu.contrib
        print("torch_npu.contrib.module" in sys.modules)
        print(torch_npu.contrib.ChannelShuffle is torch_npu.contrib.module.ChannelShuffle, hasattr(torch_npu.contrib, "nothing"))
        """
    done = child(program)
    assert done.stdout == "False\nFalse\nTrue False\n", done.stderr
