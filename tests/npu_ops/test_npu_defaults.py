"""Operators of the namespace npu with minimal arguments: defaults, groups and sequences that end early, empty tensors."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.compare import assert_close
from tests.support import rand


def test_defaults_in_python_are_those_of_the_schema(python):
    """The dispatcher drops arguments that equal the schema's default, so the Python function must have the same default."""
    done = python(
        """
        import importlib, inspect, pkgutil
        import torch, torch_npu
        from torch_npu.ops import _define

        defined, define = [], _define.op
        def recording(schema, *options, **named):
            def decorate(function):
                defined.append((schema, function))
                return define(schema, *options, **named)(function)
            return decorate
        _define.op = recording
        for module in pkgutil.iter_modules(torch_npu.ops.__path__):
            importlib.import_module(f"torch_npu.ops.{module.name}")
        equal = lambda one, other: list(one) == list(other) if isinstance(one, (list, tuple)) else one == other
        for schema, function in defined:
            parsed = torch._C.parse_schema(f"npu::{schema}")
            parameters = inspect.signature(function).parameters
            kinds = {each.kind for each in parameters.values()}
            taken = inspect.Parameter.VAR_KEYWORD in kinds or inspect.Parameter.VAR_POSITIONAL in kinds
            for argument in parsed.arguments:
                if argument.name not in parameters:
                    assert taken, (schema, argument.name)
                elif argument.has_default_value():
                    found = parameters[argument.name].default
                    same_kind = isinstance(found, (list, tuple)) == isinstance(argument.default_value, (list, tuple))
                    assert same_kind and equal(found, argument.default_value), (schema, argument.name, found)
        print(len(defined) > 200)
        """
    )
    assert done.stdout == "True\n", done.stderr


INT8 = torch.arange(-8, 8).to(torch.int8).view(1, 1, 4, 4)
WEIGHT = torch.arange(-4, 5).to(torch.int8).view(1, 1, 3, 3)
CONVOLUTIONS = {
    "only what is required": ((), {}, {}),
    "numbers": ((1, 1, 1), {}, {"padding": 1}),
    "lists": (([1, 1], [0, 0], [1, 1]), {}, {}),
    "each different": (([2, 1], [1, 2], [1, 2]), {}, {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}),
    "by name": ((), {"pads": [0, 0]}, {}),
    "one by name": ((), {"pads": [0, 1]}, {"padding": (0, 1)}),
}


@pytest.mark.parametrize("call", ["torch_npu", "torch.ops.npu"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_quantised_convolution_takes_pads_in_every_form(name, call):
    positional, named, expected = CONVOLUTIONS[name]
    function = torch_npu.npu_quant_conv2d if call == "torch_npu" else torch.ops.npu.npu_quant_conv2d
    out = function(INT8.npu(), WEIGHT.npu(), torch.full((1,), 0.5).npu(), *positional, **named)
    assert_close(out, (F.conv2d(INT8.double(), WEIGHT.double(), **expected) * 0.5).half())


@pytest.mark.parametrize("ends", [[3], [5], [0]])
@pytest.mark.parametrize("kind", [0, 1])
def test_rows_after_a_single_group_are_zero(ends, kind):
    x, w = rand(5, 4).float(), rand(1, 4, 2).float()
    for group_list in (ends, torch.tensor(ends).npu()):
        out = torch_npu.npu_grouped_matmul([x.npu()], [w.npu()], group_list=group_list, group_list_type=kind, split_item=3)[0]
        expected = x @ w[0]
        expected[ends[0] :] = 0
        assert_close(out, expected)
    (out,) = torch_npu.npu_grouped_matmul([x.npu()], [w.npu()], group_list=ends)
    assert_close(out, (x @ w[0])[: ends[0]])


def test_rows_after_the_last_group_are_not_read():
    x, w1, w2 = rand(6, 4).float(), rand(2, 4, 3).float(), rand(2, 3, 4, seed=1).float()
    x[4:] = math.nan
    expected = torch.cat((x[:1] @ w1[0], x[1:4] @ w1[1], torch.zeros(2, 3)))
    put = lambda *tensors: [t.npu() for t in tensors]  # noqa: E731
    for group_list, kind in (([1, 4], 0), ([1, 3], 1)):
        assert_close(
            torch_npu.npu_grouped_matmul(put(x), put(w1), group_list=group_list, group_list_type=kind, split_item=3)[0], expected
        )
    made = torch.cat((expected[:1].relu() @ w2[0], expected[1:4].relu() @ w2[1], torch.zeros(2, 4)))
    assert_close(torch_npu.npu_ffn(*put(x, w1, w2), "relu", expert_tokens=[1, 3]), made)
    assert_close(torch_npu.npu_ffn(*put(x, w1, w2), "relu", expert_tokens_index=[1, 4]), made)


def test_groups_that_do_not_fit_are_explained():
    x, w = rand(3, 4), rand(2, 4, 5)
    with pytest.raises(ValueError, match="npu_grouped_matmul: group_list is empty"):
        torch_npu.npu_grouped_matmul([x], [w], group_list=[])
    with pytest.raises(ValueError, match="the last group ends at 4, but x has 3 rows"):
        torch_npu.npu_grouped_matmul([x], [w[:1]], group_list=[4])
    with pytest.raises(ValueError, match="the last group ends at 9, but x has 4 columns"):
        torch_npu.npu_grouped_matmul([x], [w[0]], group_list=[1, 9], group_type=2)
    with pytest.raises(ValueError, match=r"npu_ffn: there are 2 experts and 3 rows, but the experts' rows end at \[2, 9\]"):
        torch_npu.npu_ffn(x, w, w.transpose(1, 2), "relu", expert_tokens=[2, 7])


@pytest.mark.parametrize(("active", "kept"), [(-1, 6), (0, 6), (4, 4), (6, 6), (99, 6)])
def test_routing_keeps_the_active_rows(active, kept):
    x, experts = rand(3, 4).float(), torch.tensor([[1, 0], [2, 1], [0, 2]], dtype=torch.int32)
    rows, place, tokens, scale = torch_npu.npu_moe_init_routing_v2(
        x.npu(), experts.npu(), active_num=active, expert_num=3, expert_tokens_num_type=1, expert_tokens_num_flag=True
    )
    assert_close(rows, x[[0, 2, 0, 1, 1, 2]][:kept])
    assert place.tolist() == [2, 0, 4, 3, 1, 5] and tokens.tolist() == [2, 2, 2] and scale.shape == (kept,)


def empty(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype, device="npu")


def number(*shape):
    return empty(*shape, dtype=torch.int32)


HALF, INT = torch.float16, torch.int8
NOTHING = {
    "npu_rms_norm": (lambda f: f(empty(0, 8), empty(8))[0], (0, 8)),
    "npu_group_norm_silu": (lambda f: f(empty(0, 4, 2, 2), empty(4), empty(4), 2)[1], (0, 2)),
    "npu_group_norm_swish": (lambda f: f(empty(0, 4, 2, 2), 2, empty(4), empty(4))[2], (0, 2)),
    "npu_rotary_mul": (lambda f: f(empty(0, 2, 2, 8), empty(0, 2, 1, 8), empty(0, 2, 1, 8)), (0, 2, 2, 8)),
    "npu_dynamic_quant": (lambda f: f(empty(0, 8, dtype=HALF))[1], (0,)),
    "npu_quant_matmul": (lambda f: f(empty(0, 8, dtype=INT), empty(8, 4, dtype=INT), empty(4), output_dtype=HALF), (0, 4)),
    "npu_quant_conv2d": (lambda f: f(empty(0, 1, 4, 4, dtype=INT), empty(1, 1, 3, 3, dtype=INT), empty(1)), (0, 1, 2, 2)),
    "npu_deformable_conv2d": (
        lambda f: f(empty(0, 2, 4, 4), empty(3, 2, 3, 3), empty(0, 27, 2, 2), None, [3, 3], [1] * 4, [0] * 4)[0],
        (0, 3, 2, 2),
    ),
    "npu_grouped_matmul": (lambda f: f([empty(0, 4)], [empty(2, 4, 3)], group_list=[0, 0], split_item=3)[0], (0, 3)),
    "npu_ffn": (lambda f: f(empty(0, 4), empty(2, 4, 8), empty(2, 8, 4), "relu", expert_tokens=[0, 0]), (0, 4)),
    "npu_moe_gating_top_k": (lambda f: f(empty(0, 8), 2, group_count=2)[0], (0, 2)),
    "npu_moe_init_routing_v2": (lambda f: f(empty(0, 4), number(0, 2), expert_num=4)[0], (0, 4)),
    "npu_moe_finalize_routing": (lambda f: f(empty(0, 4), None, None, None, empty(0, 2), number(0), number(0, 2)), (0, 4)),
    "npu_moe_token_unpermute": (lambda f: f(empty(0, 4), number(0), empty(0, 2)), (0, 4)),
    "npu_fusion_attention": (
        lambda f: f(*[empty(0, 2, 8)] * 3, 2, "TND", actual_seq_qlen=[0], actual_seq_kvlen=[0])[0], (0, 2, 8)
    ),
    "npu_prompt_flash_attention": (lambda f: f(*[empty(0, 4, 16)] * 3, num_heads=2, actual_seq_lengths_kv=[3]), (0, 4, 16)),
    "npu_incre_flash_attention": (lambda f: f(empty(0, 1, 16), *[empty(0, 4, 16)] * 2, num_heads=2), (0, 1, 16)),
    "npu_fused_infer_attention_score": (
        lambda f: f(
            empty(0, 2, 8), *[empty(3, 4, 16)] * 2, num_heads=2, input_layout="TND", block_table=number(0, 2), block_size=4,
            actual_seq_lengths=[], actual_seq_lengths_kv=[],
        )[0],
        (0, 2, 8),
    ),
    "npu_fused_infer_attention_score_v2": (
        lambda f: f(*[empty(0, 2, 8)] * 3, num_query_heads=2, input_layout="TND", actual_seq_qlen=[], actual_seq_kvlen=[])[0],
        (0, 2, 8),
    ),
    "npu_sparse_flash_attention": (
        lambda f: f(empty(0, 2, 4, 8), *[empty(0, 4, 1, 8)] * 2, number(0, 2, 1, 2), 1.0)[0], (0, 2, 4, 8)
    ),
    "npu_lightning_indexer": (
        lambda f: f(empty(0, 2, 4, 8), empty(0, 4, 1, 8), empty(0, 2, 4), sparse_count=2)[0], (0, 2, 1, 2)
    ),
    "npu_nsa_compress_attention": (
        lambda f: f(
            empty(0, 2, 8), *[empty(0, 1, 8)] * 2, 1.0, 2, 4, 2, 4, 1, actual_seq_qlen=[0], actual_cmp_seq_kvlen=[0],
            actual_sel_seq_kvlen=[0],
        )[1],
        (0, 1, 1),
    ),
    "npu_scaled_masked_softmax": (lambda f: f(empty(0, 1, 4, 4), empty(0, 1, 4, 4, dtype=torch.bool), 1.0, False), (0, 1, 4, 4)),
    "npu_random_choice_with_mask": (lambda f: f(empty(0, 4, dtype=torch.bool), 3, 0, 0)[0], (3, 2)),
    "npu_nms_v4": (lambda f: f(empty(0, 4), empty(0), 3, torch.tensor(0.5).npu(), torch.tensor(0.1).npu())[1], ()),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTHING)
def test_empty_arguments_give_empty_or_zero_results(name):
    call, shape = NOTHING[name]
    out = call(getattr(torch_npu, name))
    assert out.shape == shape and not out.any()


def beyond(x, lengths, value=math.nan):
    """x [B, S, ...] with `value` after the end of each sequence."""
    x = x.clone()
    for own, length in zip(x, lengths, strict=True):
        own[length:] = value
    return x.npu()


LENGTHS_Q, LENGTHS_KV = [3, 2], [4, 3]
SHORT = {
    "npu_sparse_flash_attention": lambda f, q, k, v: f(
        q, k, v, torch.tensor([0, 2, 4, 5], dtype=torch.int32, device="npu").expand(2, 3, 1, 4), 0.3,
        actual_seq_lengths_query=torch.tensor(LENGTHS_Q).npu(), actual_seq_lengths_kv=torch.tensor(LENGTHS_KV).npu(),
    )[0],
    "npu_lightning_indexer": lambda f, q, k, v: f(
        q, k, torch.ones(2, 3, 4).npu(), sparse_count=4, actual_seq_lengths_query=torch.tensor(LENGTHS_Q).npu(),
        actual_seq_lengths_key=torch.tensor(LENGTHS_KV).npu(),
    )[0],
    "npu_block_sparse_attention": lambda f, q, k, v: f(
        *(x.transpose(1, 2) for x in (q, k, v)), torch.ones(2, 4, 2, 3).npu(), [2, 2], q_input_layout="BNSD",
        kv_input_layout="BNSD", scale_value=0.3, actual_seq_lengths=LENGTHS_Q, actual_seq_lengths_kv=LENGTHS_KV,
        softmax_lse_flag=1,
    ),
    "npu_fused_infer_attention_score": lambda f, q, k, v: f(
        q, k, v, num_heads=4, num_key_value_heads=1, input_layout="BSND", scale=0.3, actual_seq_lengths=LENGTHS_Q,
        actual_seq_lengths_kv=LENGTHS_KV, softmax_lse_flag=True,
    ),
    "npu_nsa_select_attention": lambda f, q, k, v: f(
        q.flatten(0, 1)[:3], k.flatten(0, 1), v.flatten(0, 1), torch.zeros(3, 1, 1, dtype=torch.int32).npu(), 0.3, 4, 4, 1,
        actual_seq_qlen=[3], actual_seq_kvlen=[4],
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_values_beyond_the_lengths_are_not_read(name):
    q, k, v = rand(2, 3, 4, 8).float(), rand(2, 6, 1, 8).float(), rand(2, 6, 1, 8, seed=1).float()
    results = []
    for value in (0.0, math.nan, math.inf):
        given = beyond(q, LENGTHS_Q, value), beyond(k, LENGTHS_KV, value), beyond(v, LENGTHS_KV, value)
        found = SHORT[name](getattr(torch_npu, name), *given)
        results.append(found if isinstance(found, tuple) else (found,))
    for found in results[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found, results[0], strict=True))
