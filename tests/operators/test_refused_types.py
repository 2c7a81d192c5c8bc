"""Types that the CPU refuses are refused on npu: by the call itself, with the same type of exception."""

import pytest
import torch
import torch.nn.functional as F


def ones(dtype, *shape):
    return torch.ones(shape).to(dtype)


def scatter(reduce):
    return lambda x: x.scatter_reduce(0, torch.zeros(2, dtype=torch.int64, device=x.device), x, reduce)


UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
NARROW = (torch.int8, torch.int16, torch.int32, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)
HALF = (torch.complex32,)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)

# The call, the shape of its argument, and the types.
REFUSED = {
    "conv1d": (lambda x: F.conv1d(x, x[:, :, :2], dilation=2), (1, 1, 4), NARROW),
    "conv2d": (lambda x: F.conv2d(x, x[:, :, :2, :2], dilation=2), (1, 1, 4, 4), NARROW),
    "conv3d": (lambda x: F.conv3d(x, x[:, :, :2, :2, :2], dilation=2), (1, 1, 4, 4, 4), NARROW),
    "scatter_reduce amin": (scatter("amin"), (2,), COMPLEX),
    "scatter_reduce amax": (scatter("amax"), (2,), COMPLEX),
    "entr": (torch.special.entr, (2,), COMPLEX),
    "aminmax": (lambda x: torch.aminmax(x, dim=0), (2,), COMPLEX + HALF),
    "aminmax of a number": (lambda x: torch.aminmax(x, dim=0), (), COMPLEX + HALF),
    "dropout": (lambda x: F.dropout(x, 0.5), (2,), COMPLEX + HALF + UNSIGNED + FLOAT8 + (torch.int32,)),
    "ihfftn": (torch.fft.ihfftn, (2, 2), COMPLEX + HALF),
    "log_normal_": (lambda x: x.log_normal_(), (2,), FLOAT8),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 0.5), (2, 2), HALF),
    "nan_to_num": (torch.nan_to_num, (2,), HALF),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (1, 4, 1, 1), HALF + UNSIGNED + FLOAT8),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (1, 1, 2, 2), HALF + UNSIGNED + FLOAT8),
    "index_select": (lambda x: x.index_select(0, torch.zeros(1, dtype=torch.int64, device=x.device)), (1,), UNSIGNED),
    "index_put of nothing": (lambda x: x.index_put((x != x,), x[:1], accumulate=True), (2,), UNSIGNED),
}
CASES = [(name, dtype) for name, (_, _, dtypes) in REFUSED.items() for dtype in dtypes]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda value: str(value).removeprefix("torch."))
def test_a_type_is_refused_at_the_call(name, dtype):
    call, shape, _ = REFUSED[name]
    npu = ones(dtype, *shape).npu()
    with pytest.raises(Exception) as refusal:
        call(ones(dtype, *shape))
    with pytest.raises(type(refusal.value)) as found:
        call(npu)
    assert type(found.value) is type(refusal.value)
    torch.npu.synchronize()


@pytest.mark.parametrize("dtype", COMPLEX + HALF)
def test_normal_numbers_around_complex_means(dtype):
    mean = torch.full((4000,), 3 - 2j, dtype=dtype, device="npu")
    for std in (0.5, torch.full((4000,), 0.5, device="npu", dtype=dtype.to_real())):
        drawn = torch.normal(mean, std).to(torch.complex128)
        assert drawn.shape == mean.shape
        assert (drawn.mean() - (3 - 2j)).abs().item() < 0.05
        assert abs(drawn.real.std().item() - 0.5 / 2**0.5) < 0.05
        assert abs(drawn.imag.std().item() - 0.5 / 2**0.5) < 0.05
