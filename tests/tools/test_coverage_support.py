"""api_support: the dispatcher of this process and the facts of the sweep answer whether a name works on npu."""

import io
import json

import pytest
import torch
from torch_npu.tools.coverage import operators, support
from torch_npu.tools.coverage.support import api_support, operator_support, packet_support


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("torch.add", "aten::add"),
        ("torch.Tensor.add_", "aten::add_"),
        ("torch.nn.functional.conv2d", "aten::conv2d"),
        ("torch.nn.Conv2d", "aten::conv2d"),
        ("torch.nn.functional.cross_entropy", "aten::cross_entropy_loss"),
        ("torch.nn.functional.max_pool2d", "aten::max_pool2d"),
        ("torch.nn.LSTM", "aten::lstm"),
        ("torch.linalg.norm", "aten::linalg_norm"),
        ("torch.fft.fft", "aten::fft_fft"),
        ("torch.optim.Adam", "aten::_foreach_addcdiv_"),
        ("torch.ops.aten.mul.Tensor", "aten::mul"),
    ],
)
def test_names_lead_to_their_operators(name, operator):
    found = api_support(name)
    assert found.status == "supported"
    assert operator in found.operators


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("torch.cuda.set_device", "supported", "counterpart"),
        ("torch.cuda.Stream", "supported", "counterpart"),
        ("torch.cuda.amp.autocast", "supported", "counterpart"),
        ("torch.cuda.nvtx.range_push", "supported", "does nothing"),
        ("torch.cuda.jiterator", "unsupported", "no counterpart"),
        ("torch.utils.cpp_extension.CUDAExtension", "unsupported", "CUDA kernels do not run on npu"),
        ("torch.npu.set_device", "supported", "offered"),
        ("torch.Tensor.to_mkldnn", "fallback", "CPU is the only device"),
        ("torch.Tensor.shape", "supported", "no operator"),
        ("torch.no_such_name", "unknown", "no such name"),
        ("no_such_library.f", "unknown", "no such name"),
        ("torch.nn..Conv2d", "unknown", "no such name"),
        ("", "unknown", "no such name"),
        ("aten::no_such_operator", "unknown", "no operator"),
    ],
)
def test_other_names(name, status, words):
    found = api_support(name)
    assert found.status == status
    assert words in found.reason


def test_the_registry_of_this_process_is_asked():
    library = torch.library.Library("support_test", "DEF")
    library.define("later(Tensor x) -> Tensor")
    assert operator_support("support_test::later").status == "unsupported"
    library.impl("later", lambda x: x, "CPU")
    assert operator_support("support_test::later").status == "fallback"
    library.impl("later", lambda x: x, "PrivateUse1")
    assert operator_support("support_test::later").status == "supported"
    assert packet_support("support_test::later").status == "supported"


def test_structured_operators_follow_their_out_form():
    assert operator_support("aten::_upsample_lanczos2d_aa.out").status == "fallback"
    assert operator_support("aten::_upsample_lanczos2d_aa").status == "fallback"
    assert operator_support("aten::erf").status == "supported"


def test_operators_of_other_devices_are_answered_by_those_of_npu():
    for name in ("aten::mkldnn_convolution", "aten::_cudnn_rnn", "aten::_scaled_dot_product_flash_attention_for_cpu"):
        found = operator_support(name)
        assert found.status == "supported" and "on npu PyTorch calls" in found.reason


def test_layouts():
    assert operator_support("aten::mm", layout="sparse_csr").status in ("supported", "fallback")
    assert operator_support("aten::mm", layout="mkldnn").status == "unsupported"
    assert api_support("torch.Tensor.sparse_mask").status == "supported"


@pytest.fixture
def known(monkeypatch):
    exp = {"runs": "aclnn", "by": "aclnnExp", "ran": ["float32"], "failed": ["int8"], "takes": ["float32", "float16"]}
    facts = {"overloads": {"aten::exp": exp}, "gaps": [{"case": "exp/float32/layout", "reason": "refused late"}]}
    monkeypatch.setattr(operators, "facts", lambda: facts)
    monkeypatch.setattr(support, "facts", lambda: facts)
    support.api_support.cache_clear()
    yield
    support.api_support.cache_clear()


def test_dtypes_come_from_the_sweep(known):
    assert operator_support("aten::exp", "float32").status == "supported"
    assert operator_support("aten::exp", "int8").reason == "int8 fails in the operator sweep"
    assert operator_support("aten::exp", "int64").status == "unsupported"
    assert "no sample of float16" in operator_support("aten::exp", "float16").reason


def test_known_gaps_are_named(known):
    assert "refused late" in api_support("torch.exp").reason


def test_the_package_carries_the_facts():
    facts = operators.facts()
    assert facts["overloads"]["aten::add.Tensor"]["by"].startswith("aclnnAdd")
    assert "float32" in facts["overloads"]["aten::add.Tensor"]["ran"]


def test_the_command_reads_names_from_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("torch.add\n\ntorch.nope\n"))
    assert support.main(["-", "torch.mul"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["status"]) for each in found] == [
        ("torch.add", "supported"), ("torch.nope", "unknown"), ("torch.mul", "supported"),
    ]  # fmt: skip
