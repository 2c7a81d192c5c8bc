"""Options of network functions that choose between kernels give the results of the CPU, forward and backward."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from tests.compare import assert_same_outcome
from tests.support import randn

FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}


def check(function, *inputs, strides=False):
    """Results and the gradients of all floating inputs, or the refusal, are those of the CPU."""
    cpu, npu = ([x.detach().to(device).requires_grad_(x.is_floating_point()) for x in inputs] for device in ("cpu", "npu"))
    refusals = (RuntimeError, IndexError, ValueError)
    assert_same_outcome(lambda *given: results_of(function, given), cpu, npu, refusals, strides=strides)


def results_of(function, given):
    results = function(*given)
    results = results if isinstance(results, tuple) else (results,)
    tracked = [result for result in results if result.requires_grad]
    if not tracked:
        return results
    wanted = [each for each in given if each.requires_grad]
    gradients = torch.autograd.grad([result.square().sum() for result in tracked], wanted, allow_unused=True)
    return (*results, *(each for each in gradients if each is not None))


def check_module(module, *inputs):
    """Like check, for a module. Also compares the gradients of its parameters."""
    modules = {"cpu": module, "npu": copy.deepcopy(module).npu()}

    def run(*given):
        own = modules[given[0].device.type]
        flat = tuple(each for each in torch.utils._pytree.tree_leaves(own(*given)))
        return (*flat, *torch.autograd.grad(sum(each.square().sum() for each in flat), list(own.parameters()), retain_graph=True))

    check(run, *inputs)


# ---- convolution ----


@pytest.mark.parametrize("last", [False, True], ids=["first", "channels_last"])
@pytest.mark.parametrize("batch", [2, 0, None], ids=["batch", "empty", "single"])
@pytest.mark.parametrize(("groups", "dilation"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_convolution_can_be_differentiated_twice(rank, transposed, groups, dilation, batch, last):
    if last and (rank == 1 or not batch):
        pytest.skip("no such layout")
    image = randn(*([] if batch is None else [batch]), 4, *[6] * rank)
    if last:
        image = image.contiguous(memory_format=FORMATS[rank])
    weight = randn(4, (6 if transposed else 4) // groups, *[2] * rank, seed=1)
    convolve = getattr(F, f"conv{'_transpose' * transposed}{rank}d")

    def twice(x, w, b):
        result = convolve(x, w, b, stride=2, padding=1, dilation=dilation, groups=groups)
        return (result, *torch.autograd.grad(result.pow(3).sum(), (x, w, b), create_graph=True))

    check(twice, image, weight, randn(6 if transposed else 4, seed=2), strides=True)


NAMED = {
    "thnn_conv2d": (2, lambda x, w, b: torch.ops.aten.thnn_conv2d(x, w, [3, 3], b, [2, 1], [1, 0])),
    "slow_conv_dilated2d": (2, lambda x, w, b: torch.ops.aten.slow_conv_dilated2d(x, w, [3, 3], b, [1, 1], [1, 0], [2, 1])),
    "slow_conv_transpose2d": (2, lambda x, w, b: torch.ops.aten.slow_conv_transpose2d(x, w, [3, 3], b, [2, 2])),
    "slow_conv3d": (3, lambda x, w, b: torch.ops.aten.slow_conv3d(x, w, [3, 3, 3], b, [2, 1, 1], [1, 0, 0])),
    "slow_conv_dilated3d": (3, lambda x, w, b: torch.ops.aten.slow_conv_dilated3d(x, w, [3, 3, 3], b)),
    "slow_conv_transpose3d": (3, lambda x, w, b: torch.ops.aten.slow_conv_transpose3d(x, w, [3, 3, 3], b, [2, 1, 1])),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_convolution_called_by_its_implementation(name):
    rank, convolve = NAMED[name]
    shapes = ((2, 3, *[5] * rank), (3, 3, *[3] * rank), (3,))
    # In float64: the rounding of float32 depends on the processor.
    check(convolve, *(randn(*shape, seed=seed, dtype=torch.float64) for seed, shape in enumerate(shapes)), strides=True)


# ---- attention ----

MASK = torch.rand(5, 5, generator=torch.Generator().manual_seed(1)) > 0.3
ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "bool": {"attn_mask": MASK | torch.eye(5).bool()},
    "broadcast": {"attn_mask": (MASK | torch.eye(5).bool()).expand(2, 1, 5, 5)},
    "heads": {"attn_mask": (MASK | torch.eye(5).bool()).expand(4, 5, 5)},
    "float": {"attn_mask": torch.linspace(-1, 1, 25).view(5, 5)},
    "row": {"attn_mask": torch.linspace(-1, 1, 10).view(2, 1, 1, 5)},
    "nothing": {"attn_mask": torch.zeros(5, 5).bool()},
    "both": {"attn_mask": MASK, "is_causal": True},
    "misfit": {"attn_mask": MASK[:4]},
}
HEADS = {
    "usual": lambda q, k, v: (q, k, v),
    "interleaved": lambda q, k, v: tuple(each.transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v)),
    "columns": lambda q, k, v: tuple(each.mT.contiguous().mT for each in (q, k, v)),
    "single": lambda q, k, v: (q[0], k[0], v[0]),
    "flat": lambda q, k, v: (q[0, 0], k[0, 0], v[0, 0]),
    "narrow value": lambda q, k, v: (q, k, v[..., :6]),
    "empty": lambda q, k, v: (q[:0], k[:0], v[:0]),
}


def attend(q, k, v, **options):
    mask = options.pop("attn_mask", None)
    if mask is not None:
        mask = mask.to(q.device) if mask.dtype == torch.bool else mask.to(q)
    return F.scaled_dot_product_attention(q, k, v, mask, **options)


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_takes_every_option(name):
    check(lambda q, k, v: attend(q, k, v, **ATTENTION[name]), *(randn(2, 4, 5, 8, seed=seed) for seed in range(3)))


@pytest.mark.parametrize("name", HEADS)
def test_attention_takes_every_layout(name):
    check(lambda q, k, v: attend(*HEADS[name](q, k, v)), *(randn(2, 4, 5, 8, seed=seed) for seed in range(3)))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_shares_heads(causal):
    query, key, value = randn(2, 4, 5, 8), randn(2, 2, 5, 8, seed=1), randn(2, 2, 5, 8, seed=2)
    check(lambda q, k, v: attend(q, k, v, is_causal=causal, enable_gqa=True), query, key, value)


def test_attention_has_a_gradient_for_its_mask():
    query, key, value = (randn(2, 4, 5, 8, seed=seed) for seed in range(3))
    check(lambda q, k, v, mask: attend(q, k, v, attn_mask=mask), query, key, value, randn(5, 5, seed=3))


def test_dropout_of_attention_follows_the_seed():
    query, key, value = (randn(2, 4, 5, 8, seed=seed).npu() for seed in range(3))
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(attend(query, key, value, dropout_p=0.5))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


# ---- recurrent layers ----


@pytest.mark.parametrize(("layers", "both_ways", "bias"), [(1, False, True), (2, True, True), (2, True, False)])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU], ids=lambda kind: kind.__name__)
def test_recurrent_layers(kind, layers, both_ways, bias):
    module = kind(4, 3, layers, bidirectional=both_ways, bias=bias)
    check_module(module, randn(5, 2, 4))
    check_module(module, randn(5, 4))
    module.batch_first = True
    check_module(module, randn(2, 5, 4))


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_projected_lstm(both_ways):
    check_module(nn.LSTM(4, 3, 2, proj_size=2, bidirectional=both_ways), randn(5, 2, 4))


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU], ids=lambda kind: kind.__name__)
def test_packed_sequences(kind):
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = kind(4, 3, 2, bidirectional=True)

        def forward(self, x):
            output, state = self.layer(pack_padded_sequence(x, [5, 3, 1]))
            return output.data, state

    check_module(Packed(), randn(5, 3, 4))


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU], ids=lambda kind: kind.__name__)
def test_dropout_between_layers_follows_the_seed(kind):
    module, sequence = kind(4, 3, 2, dropout=0.5).npu(), randn(5, 2, 4).npu()
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(module(sequence)[0])
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.RNNCell, nn.LSTMCell, nn.GRUCell], ids=lambda kind: kind.__name__)
def test_recurrent_cells(kind, bias):
    for shape in ((2, 4), (4,), (0, 4)):
        check_module(kind(4, 3, bias=bias), randn(*shape))


# ---- pooling and resampling ----

POOLS = {
    "max": lambda x, rank: getattr(F, f"max_pool{rank}d")(x, 3, 2, 1, return_indices=True),
    "avg": lambda x, rank: getattr(F, f"avg_pool{rank}d")(x, 3, 2, 1, count_include_pad=False),
    "adaptive avg": lambda x, rank: getattr(F, f"adaptive_avg_pool{rank}d")(x, 4),
    "adaptive max": lambda x, rank: getattr(F, f"adaptive_max_pool{rank}d")(x, 4, return_indices=True),
    "area": lambda x, rank: F.interpolate(x, scale_factor=0.7, mode="area"),
    "nearest": lambda x, rank: F.interpolate(x, scale_factor=1.7),
    "nearest-exact": lambda x, rank: F.interpolate(x, scale_factor=1.7, mode="nearest-exact"),
    "linear": lambda x, rank: F.interpolate(x, size=[9] * rank, mode="bilinear" if rank == 2 else "trilinear"),
    "unpool": lambda x, rank: getattr(F, f"max_unpool{rank}d")(*getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True), 2),
}


@pytest.mark.parametrize("last", [False, True], ids=["first", "channels_last"])
@pytest.mark.parametrize(("name", "rank"), itertools.product(POOLS, (2, 3)))
def test_pools_keep_the_layout_of_the_cpu(name, rank, last):
    image = randn(2, 3, *[6] * rank)
    check(lambda x: POOLS[name](x, rank), image.contiguous(memory_format=FORMATS[rank]) if last else image, strides=True)


@pytest.mark.parametrize("last", [False, True], ids=["first", "channels_last"])
def test_a_pool_without_a_batch_keeps_the_layout_of_the_cpu(last):
    image = randn(1, 3, 6, 6, 6).contiguous(memory_format=FORMATS[3]) if last else randn(1, 3, 6, 6, 6)
    check(lambda x: POOLS["max"](x, 3), image.squeeze(0), strides=True)


@pytest.mark.parametrize("scale", [0.3, 0.7, 1.5, 2.6])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolation_with_antialias(mode, scale):
    check(lambda x: F.interpolate(x, scale_factor=scale, mode=mode, antialias=True), randn(2, 3, 11, 7), strides=True)


# ---- bags of embeddings and sequences of labels ----


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"include_last_offset": True}], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_embedding_bags(mode, options, dtype):
    places = torch.tensor([0, 6, 2, 3, 3, 2], dtype=dtype)
    starts = torch.tensor([0, 0, 3, 6] if "include_last_offset" in options else [0, 0, 3])
    check(lambda table, x, y: F.embedding_bag(x, table, y, mode=mode, **options), randn(7, 3), places, starts)


def test_weighted_embedding_bags():
    places, starts = torch.tensor([0, 6, 2, 3, 3, 2]), torch.tensor([0, 0, 3])

    def weighted(table, x, y, weights):
        return F.embedding_bag(x, table, y, mode="sum", per_sample_weights=weights, padding_idx=2)

    check(weighted, randn(7, 3), places, starts, randn(6, seed=1))


def test_a_bag_names_an_index_out_of_range_at_once():
    table = torch.ones(7, 3, device="npu")
    for index in (-1, 7):
        with pytest.raises(RuntimeError, match=r"num_embeddings|valid range"):
            F.embedding_bag(torch.tensor([[index, 1]], device="npu"), table)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_weighted_bag_is_the_product_and_the_sum(dtype):
    table, weights = randn(7, 3).to("npu", dtype), randn(6, seed=1).to("npu", dtype)
    places = torch.tensor([[0, 6, 2], [3, 3, 2]], device="npu")
    bags = F.embedding_bag(places, table, mode="sum", per_sample_weights=weights.view(2, 3))
    assert torch.equal(bags, (table[places] * weights.view(2, 3, 1)).sum(1))


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_of_half_precision_are_added_in_float(sparse):
    table = torch.zeros(2, 1, device="npu", dtype=torch.bfloat16, requires_grad=True)
    F.embedding(torch.ones(2000, device="npu", dtype=torch.int64), table, sparse=sparse).sum().backward()
    assert table.grad.to_dense().tolist() == [[0], [2000]]


@pytest.mark.parametrize("dim", [0, 1])
def test_weight_norm_keeps_the_initial_weight(dim):
    layer = nn.Linear(4, 5, dtype=torch.bfloat16, device="npu")
    before = layer.weight.detach().clone()
    assert torch.equal(nn.utils.parametrizations.weight_norm(layer, dim=dim).weight, before)


def test_the_gradient_of_a_bag_is_scaled_by_how_often_its_index_occurs():
    table = torch.ones(7, 3, device="npu", requires_grad=True)
    places = torch.tensor([[0, 6, 2], [3, 3, 2]], device="npu")
    F.embedding_bag(places, table, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert table.grad[:, 0].tolist() == [1, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("lengths", ["numbers", "host", "device"])
def test_ctc_loss_takes_lengths_from_anywhere(lengths):
    labels = torch.tensor([[1, 2, 1], [3, 1, 2]])

    def loss(x, y):
        if lengths == "numbers":
            return F.ctc_loss(x.log_softmax(-1), y, (5, 4), (2, 3))
        device = x.device if lengths == "device" else "cpu"
        return F.ctc_loss(x.log_softmax(-1), y, torch.tensor([5, 4], device=device), torch.tensor([2, 3], device=device))

    check(loss, randn(5, 2, 4), labels)


STATISTICS = {
    "batch_norm": lambda x, mean, var: F.batch_norm(x, mean, var, training=True),
    "instance_norm": lambda x, mean, var: F.instance_norm(x, mean, var, use_input_stats=True),
    "native_batch_norm": lambda x, mean, var: torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5),
    "out": lambda x, mean, var: torch.native_batch_norm(
        x, None, None, mean, var, True, 0.1, 1e-5, out=[x.new_empty(0) for _ in range(3)]
    ),
    "evaluation": lambda x, mean, var: F.batch_norm(x, mean, var),
    "evaluation of instances": lambda x, mean, var: F.instance_norm(x, mean, var, use_input_stats=False),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("given", ["mean", "var"])
def test_one_running_statistic_without_the_other_is_refused_at_the_call(name, given):
    seen = []
    for device in ("npu", "cpu"):
        x, statistic = torch.ones(3, 4, 5, device=device), torch.ones(4, device=device)
        with pytest.raises((RuntimeError, ValueError)) as refusal:
            STATISTICS[name](x, *((statistic, None) if given == "mean" else (None, statistic)))
        seen.append((refusal.type, str(refusal.value)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("missing", [("mean",), ("var",), ("mean", "var")])
def test_a_gradient_of_batch_norm_without_its_statistics_is_refused(training, missing):
    """The CPU crashes here, so there is no comparison."""
    x, statistic = torch.ones(3, 4, device="npu"), torch.ones(4, device="npu")
    needed = [None if name in missing else statistic for name in ("mean", "var")]
    statistics = [statistic, statistic, *needed] if training else [*needed, statistic, statistic]
    with pytest.raises(ValueError, match=f"must be given in {'training' if training else 'evaluation'} mode"):
        torch.ops.aten.native_batch_norm_backward(x, x, None, *statistics, training, 1e-5, [True] * 3)


def test_batch_norm_in_evaluation_mode_needs_statistics():
    x = torch.ones(3, 4, device="npu")
    with pytest.raises(ValueError, match="must be given in evaluation mode"):
        torch.native_batch_norm(x, None, None, None, None, False, 0.1, 1e-5)
