"""Fourier transforms give what the CPU gives: values, dtypes and the layout that its library leaves, without a fallback."""

import itertools

import pytest
import torch

from tests.compare import assert_same
from tests.support import LAYOUTS, pair

ops = torch.ops.aten
SPATIAL = [name for name in LAYOUTS if name not in ("zero_dim", "empty", "channels_last")]
FUNCTIONS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "fftn", "ifftn", "irfftn", "hfftn")
DIMS = [dims for count in (1, 2, 3) for dims in itertools.permutations(range(3), count)]


@pytest.mark.parametrize("layout", SPATIAL)
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_the_three_transforms_over_all_dimensions(layout, dims):
    for normalization in (0, 1, 2):
        cpu, npu = pair(layout, torch.complex64)
        for forward in (True, False):
            assert_same(ops._fft_c2c(npu, dims, normalization, forward), ops._fft_c2c(cpu, dims, normalization, forward))
        for size in (2 * cpu.size(dims[-1]) - 1, 2 * cpu.size(dims[-1]) - 2):
            assert_same(ops._fft_c2r(npu, dims, normalization, size), ops._fft_c2r(cpu, dims, normalization, size))
        cpu, npu = pair(layout, torch.float64)
        for onesided in (True, False):
            assert_same(ops._fft_r2c(npu, dims, normalization, onesided), ops._fft_r2c(cpu, dims, normalization, onesided))


def test_a_transform_over_no_dimension_is_a_copy():
    cpu, npu = pair("transposed", torch.complex64)
    result = ops._fft_c2c(npu, [], 0, True)
    assert_same(result, ops._fft_c2c(cpu, [], 0, True))
    assert result.data_ptr() != npu.data_ptr()


@pytest.mark.parametrize(
    "name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "fftn", "ifftn", "irfftn", "hfftn"]
)
@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
def test_the_functions_of_torch_fft(name, norm):
    function = getattr(torch.fft, name)
    cpu, npu = pair("sliced")
    assert_same(function(npu, norm=norm), function(cpu, norm=norm))


def test_integers_become_floating_point():
    cpu, npu = pair("contiguous", torch.int32)
    assert_same(torch.fft.fft(npu), torch.fft.fft(cpu))


def test_out_is_resized_or_written_in_its_own_layout():
    cpu, npu = pair("transposed", torch.complex64)
    assert_same(torch.fft.fft(npu, out=npu.new_empty(0)), torch.fft.fft(cpu, out=cpu.new_empty(0)))
    assert_same(torch.fft.fft(npu, dim=1, out=npu.new_empty(3, 4, 5)), torch.fft.fft(cpu, dim=1, out=cpu.new_empty(3, 4, 5)))
    wide = torch.empty(3, 4, 5, dtype=torch.complex128)
    assert_same(ops._fft_c2c.out(npu, [0], 0, True, out=wide.npu()), ops._fft_c2c.out(cpu, [0], 0, True, out=wide))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_batch_without_signals_is_refused(device):
    with pytest.raises(RuntimeError):
        torch.fft.fft(torch.empty(0, 4, device=device))


def test_short_time_transforms_and_their_inverse():
    signal, window = torch.randn(2, 80), torch.hann_window(16)
    cpu = torch.stft(signal, 16, window=window, return_complex=True)
    npu = torch.stft(signal.npu(), 16, window=window.npu(), return_complex=True)
    assert_same(npu, cpu)
    assert_same(torch.istft(npu, 16, window=window.npu()), torch.istft(cpu, 16, window=window))


def test_the_gradient_equals_that_of_the_cpu():
    cpu, npu = (torch.linspace(-1, 1, 24, device=device).view(4, 6).requires_grad_() for device in ("cpu", "npu"))
    for x in (cpu, npu):
        torch.fft.irfftn(torch.fft.rfftn(x) ** 2, s=(4, 6)).square().sum().backward()
    assert_same(npu.grad, cpu.grad)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.fft.fft(x, n=0),
        lambda x: torch.fft.fft(x, dim=7),
        lambda x: torch.fft.fftn(x, dim=(0, 0)),
        lambda x: torch.fft.rfft(x.to(torch.complex64)),
        lambda x: torch.fft.fft(x.half()),
        lambda x: torch.fft.fft(x, norm="none"),
    ],
)
def test_malformed_calls_are_refused_with_the_text_of_the_cpu(call):
    cpu, npu = pair("contiguous")
    with pytest.raises(Exception) as expected:
        call(cpu)
    with pytest.raises(expected.type) as found:
        call(npu)
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]
