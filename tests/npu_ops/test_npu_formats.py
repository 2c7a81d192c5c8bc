"""NPU formats are stored with a tensor and change no value; HiFloat8 rounds by its definition."""

import pickle
import warnings

import pytest
import torch
import torch_npu
from torch_npu import Format
from torch_npu._hifloat8 import decode, encode


@pytest.mark.parametrize("rank, expected", [(0, "ND"), (2, "ND"), (3, "ND"), (4, "NCHW"), (5, "NCDHW")])
def test_a_format_follows_from_the_rank(rank, expected):
    x = torch.ones([2] * rank, device="npu")
    assert torch_npu.get_npu_format(x) is Format[expected]
    assert torch.ops.npu.get_npu_format(x) == Format[expected]


@pytest.mark.parametrize("format", [Format.FRACTAL_NZ, 3, 4, Format.NHWC, 2])
def test_a_cast_keeps_the_values_and_remembers_the_format(format):
    x = torch.arange(120.0, device="npu").view(2, 3, 4, 5)
    y = torch_npu.npu_format_cast(x, format)
    assert torch_npu.get_npu_format(y) == format and isinstance(torch_npu.get_npu_format(y), Format)
    assert torch_npu.get_npu_format(x) is Format.NCHW
    assert torch.equal(y, x) and y.stride() == x.stride() and y.data_ptr() != x.data_ptr()
    assert torch_npu.get_npu_format(y[1:]) == format
    assert torch_npu.get_npu_format(y + 1) is Format.NCHW
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(y, 0)) is Format.NCHW
    assert torch_npu.npu_format_cast(y, format).data_ptr() == y.data_ptr()


def test_format_casts_in_place_and_to_the_format_of_another_tensor():
    x = torch.ones(4, 4, device="npu")
    assert torch_npu.npu_format_cast_(x, 29) is x and torch_npu.get_npu_format(x) is Format.FRACTAL_NZ
    other = torch.zeros(4, 4, device="npu")
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast_(other, x)) is Format.FRACTAL_NZ
    assert torch_npu.get_npu_format(torch.ops.npu.npu_format_cast(torch.zeros(4, 4, device="npu"), x)) is Format.FRACTAL_NZ


def test_tensors_have_the_casts_as_methods():
    x = torch.randn(2, 3, 4, 4, device="npu", requires_grad=True)
    y = x.npu_format_cast(3)
    y.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x)) and torch_npu.get_npu_format(y) is Format.NC1HWC0
    x.data = x.data.npu_format_cast(0)
    assert torch_npu.get_npu_format(x.data.npu_format_cast_(3)) is Format.NC1HWC0


@pytest.mark.parametrize(
    "shape, format, dtype, elements",
    [
        ((3, 5), 2, torch.float32, 15),
        ((3, 5), 29, torch.float16, 1 * 1 * 16 * 16),
        ((17, 33), 29, torch.float32, 3 * 2 * 16 * 16),
        ((17, 33), 29, torch.int8, 2 * 2 * 16 * 32),
        ((2, 3, 4, 5), 3, torch.float16, 2 * 1 * 4 * 5 * 16),
        ((17, 3, 4, 5), 4, torch.float16, 20 * 2 * 16 * 16),
        ((2, 3, 2, 4, 5), 32, torch.float16, 2 * 2 * 1 * 4 * 5 * 16),
    ],
)
def test_the_size_of_a_storage_has_the_padding_of_its_format(shape, format, dtype, elements):
    x = torch_npu.empty_with_format(shape, dtype=dtype, device="npu", acl_format=format)
    assert (x.shape, x.dtype, torch_npu.get_npu_format(x)) == (shape, dtype, format)
    assert torch_npu.get_storage_size(x) == elements


def test_a_format_that_does_not_fit_the_rank_becomes_the_default_of_the_rank():
    with pytest.warns(UserWarning, match="2 dimensions has no format NC1HWC0; it is ND"):
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(torch.ones(2, 2, device="npu"), 3)) is Format.ND
    with pytest.raises(ValueError, match=r"77 is no format; torch_npu\.Format has"):
        torch_npu.npu_format_cast(torch.ones(2, device="npu"), 77)
    with pytest.raises(RuntimeError, match=r"on cpu; write x.npu\(\)"):
        torch_npu.npu_format_cast(torch.ones(2), 2)
    with pytest.raises(RuntimeError, match=r"on cpu; write x.npu\(\)"):
        torch_npu.get_npu_format(torch.ones(2))


def test_memory_is_copied_and_shared():
    x, y = torch.zeros(2, 3, device="npu"), torch.arange(6.0, device="npu")
    assert torch_npu.copy_memory_(x, y) is x and x.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="use copy_"):
        torch_npu.copy_memory_(x, y.half())
    part = torch.zeros(2, device="npu")
    assert torch_npu.npu_change_data_ptr(part, y, 3) == 0
    assert part.tolist() == [3, 4] and part.data_ptr() == y.data_ptr() + 12
    part.fill_(9)
    assert y.tolist() == [0, 1, 2, 9, 9, 5]
    with pytest.raises(ValueError, match="elements 5 to 7 are not inside of the 6 of src"):
        torch_npu.npu_change_data_ptr(part, y, 5)
    swapped = torch_npu.empty_with_swapped_memory([4], dtype=torch.float32, device="npu")
    assert swapped.fill_(2).sum().item() == 8


def test_erasing_a_stream_checks_its_arguments():
    x = torch.ones(2, device="npu")
    assert torch_npu.erase_stream(x, torch.npu.current_stream()) is None
    with pytest.raises(TypeError, match="takes a stream, not int"):
        torch_npu.erase_stream(x, 0)


def test_acl_numbers_map_to_dtypes():
    assert (torch_npu.hifloat8, torch_npu.float8_e5m2, torch_npu.float4_e2m1fn_x2, torch_npu.int4) == (290, 291, 296, 285)
    x = torch.tensor([0.0, 0.5, -1.0], device="npu")
    assert torch_npu.npu_dtype_cast(x, torch.int32).dtype == torch.int32
    assert torch_npu.npu_dtype_cast(x, torch_npu.bfloat16).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="torch has no data type float6_e3m2"):
        torch_npu.npu_dtype_cast(x, torch_npu.float6_e3m2)
    with pytest.raises(ValueError, match="there is no data type 999"):
        torch_npu.npu_dtype_cast(x, 999)


def test_hifloat8_has_the_values_of_its_definition():
    values = decode(torch.arange(256, dtype=torch.uint8))
    finite = sorted(set(values[values.isfinite()].tolist()))
    assert (
        len(finite) == 253 and finite[-1] == 2.0**15 and finite[0] == -(2.0**15) and min(v for v in finite if v > 0) == 2.0**-22
    )
    assert values[0x80].isnan() and values[0x6F] == float("inf") and values[0xEF] == float("-inf")
    for exponent, mantissas in (
        (0, 8),
        (1, 8),
        (-1, 8),
        (3, 8),
        (-3, 8),
        (4, 4),
        (-7, 4),
        (8, 2),
        (14, 2),
        (-15, 2),
        (-16, 1),
        (-22, 1),
    ):
        found = sum(2.0**exponent <= v < 2.0 ** (exponent + 1) for v in finite)
        assert found == mantissas, exponent


def test_hifloat8_rounds_to_the_nearest_and_halves_away_from_zero():
    values = decode(torch.arange(256, dtype=torch.uint8))
    assert torch.equal(encode(values), torch.arange(256, dtype=torch.uint8))
    known = torch.unique(values[values.isfinite() & (values >= 0)])
    halves = (known[1:] + known[:-1]) / 2
    assert torch.equal(decode(encode(halves)), known[1:]) and torch.equal(decode(encode(-halves)), -known[1:])
    assert torch.equal(decode(encode(torch.nextafter(halves, torch.zeros(())))), known[:-1])
    extreme = torch.tensor([40960.0, 40959.0, 1e30, -1e30, 2.0**-23, 2.0**-24, float("nan"), -0.0])
    assert encode(extreme).tolist() == [0x6F, 0x6E, 0x6F, 0xEF, 1, 0, 0x80, 0]
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encode(x.npu()).cpu(), encode(x))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_hifloat8_tensor(device):
    x = torch.tensor([[1.0, 1.06, -3.3], [100.0, 0.0, 1e-4]], device=device, requires_grad=True)
    h = torch_npu.HiFloat8Tensor.to_hifloat8(x)
    rounded = decode(encode(x.detach()))
    assert h.dtype == torch.float32 and torch.equal(h.float(), rounded) and h.half().dtype == torch.float16
    (h * 2).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2))
    h = h.detach()
    assert torch.equal(h.transpose(0, 1).reshape(6).float(), rounded.t().reshape(6))
    assert torch.equal(h.view(3, 2).clone().contiguous().float(), rounded.view(3, 2))
    assert h.to_dtype(torch.bfloat16).from_hifloat8().dtype == torch.bfloat16 and h.cpu().device.type == "cpu"
    like = torch_npu.HiFloat8Tensor.make_like(h, data=encode(x.detach() * 2), dtype=torch.float16)
    assert like.dtype == torch.float16 and torch.equal(like.float(), decode(encode(x.detach() * 2)))
    assert torch_npu.HiFloat8Tensor.make_like(like, data=encode(x.detach())).dtype == torch.float16
    h[0] = 1.06
    assert h[0].float().tolist() == [1.0] * 3 and torch.equal(h[1].float(), rounded[1])
    h.add_(0.13)
    assert h[0].float().tolist() == [1.125] * 3
    assert torch.equal(pickle.loads(pickle.dumps(h.to("cpu"))), h.to("cpu"))
    with pytest.raises(ValueError, match="one byte each"):
        torch_npu.HiFloat8Tensor(data=x.detach())


def test_no_warning_comes_with_an_ordinary_cast():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_npu.npu_format_cast(torch.ones(2, 2, device="npu"), Format.FRACTAL_NZ)
