"""How operators of the namespace npu are registered, listed and called, and how they refuse wrong arguments."""

import inspect
import re
from pathlib import Path

import pytest
import torch
import torch_npu
from torch_npu import ops
from torch_npu.ops._define import PUBLIC

from tests.compare import assert_close
from tests.support import rand

QKV = [rand(2, 4, 6, 8), rand(2, 4, 6, 8, seed=1), rand(2, 4, 6, 8, seed=2)]


WRONG = {
    "rms_norm": (lambda: torch_npu.npu_rms_norm(rand(3, 4), rand(3)), "gamma has the shape [3]"),
    "geglu": (lambda: torch_npu.npu_geglu(rand(3, 5)), "cannot be halved"),
    "rotary_mul": (lambda: torch_npu.npu_rotary_mul(rand(2, 4), rand(4), rand(4), "quarter"), "half or interleave, not quarter"),
    "layout": (lambda: torch_npu.npu_fusion_attention(*QKV, 4, "NBSD"), "the layout is BSH, SBH, BSND, BNSD or TND, not NBSD"),
    "heads": (lambda: torch_npu.npu_fusion_attention(*QKV, 3, "BNSD"), "head_num is 3, but query has 4 heads"),
    "sparse_mode": (lambda: torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", sparse_mode=9), "sparse_mode is 0 to 6, not 9"),
    "keep_prob": (lambda: torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", keep_prob=0.0), "keep_prob is more than 0"),
    "packed": (lambda: torch_npu.npu_fusion_attention(*[rand(4, 2, 8)] * 3, 2, "TND"), "needs actual_seq_qlen"),
    "giou": (lambda: torch_npu.npu_giou(rand(5, 4), rand(5, 4)), "transpose it"),
    "nms": (lambda: torch_npu.npu_nms_with_mask(rand(5, 4), 0.5), "[n, 5] or wider"),
    "mask": (lambda: torch_npu.npu_scaled_masked_softmax(rand(2, 3), rand(2, 3)), "write mask.bool()"),
    "slice": (lambda: torch_npu.npu_slice(rand(3, 4), [2, 0], [2, 4]), "not inside of dimension 0"),
    "group_list": (lambda: torch_npu.npu_grouped_matmul([rand(3, 4)], [rand(2, 4, 5)]), "needs a group_list of 2"),
    "grouped": (lambda: torch_npu.npu_grouped_matmul([rand(3, 4)], [rand(2, 4, 5)], group_list=[2, 9]), "but x has 3 rows"),
    "experts": (lambda: torch_npu.npu_moe_gating_top_k_softmax(rand(2, 3), None, 4), "k is 1 to 3"),
    "scales": (lambda: torch_npu.npu_quantize(rand(3, 4), rand(5), None, torch.qint8, 1), "scales are one or 4"),
    "quant_matmul": (lambda: torch_npu.npu_quant_matmul(rand(2, 3), rand(3, 4), rand(4)), "both int8 or int32"),
    "dtype": (lambda: torch_npu.npu_dynamic_quant(rand(2, 3), dst_type=torch.float32), "dst_type is int8"),
    "lstm": (
        lambda: torch_npu.npu_lstm(*[rand(2, 2, 2)] * 6, True, 2, 0.0, True, False, False, False, False),
        "torch.nn.LSTM has more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_explained(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_wrong_calls_are_explained():
    with pytest.raises(TypeError, match="takes a tensor for the argument 'query', not None"):
        torch_npu.npu_fusion_attention(None, None, None, 1, "BSND")
    with pytest.raises(TypeError, match="multiple values for argument 'approximate'"):
        torch_npu.npu_gelu(rand(2), "none", approximate="tanh")
    with pytest.raises(TypeError, match="takes 3 arguments, but 4 were given"):
        torch_npu.npu_linear(rand(2, 2), rand(2, 2), rand(2), rand(2))
    with pytest.raises(RuntimeError, match="weight"):
        torch_npu.npu_linear(rand(2, 2))
    with pytest.raises(NotImplementedError, match="does not offer the argument padding_mask; leave it out"):
        torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", padding_mask=rand(1))
    with pytest.raises(ValueError, match=r"npu_alltoallv_gmm: no process group .* communicator 'group'"):
        torch_npu.npu_alltoallv_gmm(rand(2, 2), rand(1, 2, 2), "group", 2, [1], [1])
    with pytest.raises(ValueError, match=r"npu_all_gather_base_mm: no process group .* communicator 'group'"):
        torch.ops.npu.npu_all_gather_base_mm(rand(2, 2), rand(2, 2), "group", 2)
    with pytest.raises(NotImplementedError, match=r"npu_ffn_to_attention is not offered.*npu_moe_distribute_dispatch"):
        torch.ops.npu.npu_ffn_to_attention(*[rand(2)] * 6, "group", 2, [1], [1])
    with pytest.raises(ValueError, match="npu_mhc_sinkhorn: num_iters is 1 to 100, not 0"):
        torch_npu.npu_mhc_sinkhorn(rand(2, 4, 4), num_iters=0)
    with pytest.raises(AttributeError, match="npu_no_such_operator"):
        _ = torch_npu.npu_no_such_operator
    with pytest.raises(AttributeError, match="npu_no_such_operator"):
        _ = torch.ops.npu.npu_no_such_operator


def test_the_table_of_families_lists_all_defined_operators():
    for name in ops.FAMILY_OF:
        assert callable(getattr(torch_npu, name)), name
    assert set(PUBLIC) == set(ops.FAMILY_OF)
    assert "npu_rms_norm" in dir(torch.ops.npu)
    for name, function in PUBLIC.items():
        assert inspect.getdoc(function), name


def test_the_document_lists_all_operators():
    document = (Path(__file__).parents[2] / "docs/npu_ops.md").read_text()
    rows = [f"| {family} | {' '.join(f'`{name}`' for name in names.split())} |" for family, names in ops.FAMILIES.items()]
    assert re.findall(r"^\| (?!family)[a-z].*$", document, re.M) == rows


def test_an_operator_accepts_the_argument_names_of_both_signatures():
    x, w = rand(3, 4), rand(5, 4)
    assert torch.equal(torch_npu.npu_linear(input=x, weight=w), torch_npu.npu_linear(input_=x, weight=w))
    assert torch.equal(torch_npu.npu_gelu(x, "tanh"), torch.ops.npu.npu_gelu(x, approximate="tanh"))
    q, k, v = QKV
    plain = torch_npu.npu_prompt_flash_attention(q, k, v, num_heads=4, input_layout="BNSD", num_key_value_heads=4)
    listed = torch_npu.npu_prompt_flash_attention(None, q, k, v, None, None, None, None, 4, 1.0, 2147483647, 0, "BNSD", 4)
    assert torch.equal(plain, listed)


def test_a_family_is_imported_at_its_first_use(python):
    done = python(
        """
        import sys, torch_npu
        print("npu_rms_norm" in dir(torch_npu), [name for name in sys.modules if name.startswith("torch_npu.ops.")])
        """
    )
    assert done.stdout == "True []\n", done.stderr


OPCHECKED = {
    "npu_rms_norm": (rand(3, 4), rand(4)),
    "npu_swiglu": (rand(3, 4),),
    "npu_rotary_mul": (rand(2, 4), rand(4), rand(4)),
    "npu_moe_token_permute": (rand(3, 4), torch.tensor([2, 0, 1])),
    "npu_dynamic_quant": (rand(3, 4),),
    "npu_dynamic_block_quant": (rand(3, 4),),
    "npu_mhc_post": (rand(2, 3, 4), rand(2, 3, 3), rand(2, 4), rand(2, 3)),
    "npu_lightning_indexer": (rand(2, 3, 4, 8), rand(2, 5, 1, 8), rand(2, 3, 4)),
    "npu_add_rms_norm_v2": (rand(3, 4), rand(3, 4, seed=1), rand(4)),
}


@pytest.mark.parametrize("name", OPCHECKED)
def test_registration_passes_opcheck(name):
    tensors = [tensor.float() if tensor.is_floating_point() else tensor for tensor in OPCHECKED[name]]
    arguments = tuple(tensor.detach().npu() for tensor in tensors)
    arguments[0].requires_grad_(name in ("npu_rms_norm", "npu_swiglu"))
    torch.library.opcheck(getattr(torch.ops.npu, name).default, arguments, test_utils=("test_schema", "test_faketensor"))


def test_operators_run_on_meta_tensors():
    x = torch.empty(2, 6, 8, 16, device="meta")
    assert torch_npu.npu_fusion_attention(x, x, x, 8, "BSND")[0].shape == x.shape
    assert torch_npu.npu_swiglu(x).shape == (2, 6, 8, 8)
    assert torch_npu.npu_nms_v4(x[0, 0, :, :4], x[0, 0, :, 0], 5, x[0, 0, 0, 0], x[0, 0, 0, 0])[0].shape == (5,)


def test_torch_compile_traces_operators_without_graph_breaks():
    def network(x, gamma):
        return torch_npu.npu_swiglu(torch_npu.npu_rms_norm(x, gamma)[0])

    x, gamma = rand(3, 8).float().npu(), rand(8).float().npu()
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    assert_close(compiled(x, gamma).cpu(), network(x.cpu(), gamma.cpu()))
