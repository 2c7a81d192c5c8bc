"""Special functions, histograms and fractional pooling give what the CPU gives, without a fallback."""

import pytest
import torch
import torch.nn.functional as F

from tests.compare import assert_same
from tests.support import pair

S = torch.special
UNARY = {
    "digamma": torch.digamma, "lgamma": torch.lgamma, "i0": torch.i0, "i0e": S.i0e, "i1": S.i1, "i1e": S.i1e, "erfcx": S.erfcx,
    "log_ndtr": S.log_ndtr, "ndtri": lambda x: S.ndtri((x + 3) / 6), "airy_ai": S.airy_ai, "bessel_j0": S.bessel_j0,
    "bessel_j1": S.bessel_j1, "bessel_y0": S.bessel_y0, "bessel_y1": S.bessel_y1, "modified_bessel_i0": S.modified_bessel_i0,
    "modified_bessel_i1": S.modified_bessel_i1, "modified_bessel_k0": S.modified_bessel_k0,
    "modified_bessel_k1": S.modified_bessel_k1, "scaled_modified_bessel_k0": S.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": S.scaled_modified_bessel_k1, "spherical_bessel_j0": S.spherical_bessel_j0,
    "polygamma": lambda x: torch.polygamma(2, x), "mvlgamma": lambda x: torch.mvlgamma(x + 5, 3), "frexp": torch.frexp,
}  # fmt: skip
BINARY = {
    "igamma": lambda a, b: torch.igamma(a.abs(), b.abs()), "igammac": lambda a, b: torch.igammac(a.abs(), b.abs()),
    "nextafter": torch.nextafter, "zeta": lambda a, b: S.zeta(a.abs() + 1.1, b.abs()),
}  # fmt: skip
POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
)  # fmt: skip
LAYOUTS = ("contiguous", "transposed", "sliced", "empty")


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(name):
    for layout in LAYOUTS:
        for dtype in (torch.float32, torch.float64):
            cpu, npu = pair(layout, dtype)
            assert_same(UNARY[name](npu), UNARY[name](cpu))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_ldexp_does_not_overflow_in_an_intermediate_result(dtype):
    mantissas, exponents = torch.tensor([[-2, 2**-10, 3, 0, float("inf")]], dtype=dtype), torch.tensor([[-25], [20], [4], [0]])
    expected = torch.ldexp(mantissas.expand(4, 5), exponents)
    assert_same(torch.ldexp(mantissas.expand(4, 5).npu(), exponents.npu()), expected)
    assert_same(mantissas.repeat(4, 1).npu().ldexp_(exponents.npu()), expected)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_tensors(name):
    for layout in LAYOUTS:
        (a, c), (b, d) = pair(layout, torch.float64), pair(layout, torch.float64, seed=1)
        assert_same(BINARY[name](c, d), BINARY[name](a, b))


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    polynomial = getattr(S, name)
    for layout in LAYOUTS:
        cpu, npu = pair(layout)
        assert_same(polynomial(npu, npu.round().abs()), polynomial(cpu, cpu.round().abs()))


def test_either_tensor_can_be_a_number():
    cpu, npu = pair("contiguous")
    assert_same(S.zeta(2.5, npu.abs()), S.zeta(2.5, cpu.abs()))
    assert_same(S.chebyshev_polynomial_t(npu, 3), S.chebyshev_polynomial_t(cpu, 3))


def test_integers_become_floating_point_and_halves_are_refused_where_the_cpu_refuses_them():
    cpu, npu = pair("contiguous", torch.int64)
    assert_same(torch.lgamma(npu), torch.lgamma(cpu))
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        S.airy_ai(npu.half())


def test_histograms():
    cpu, npu = pair("contiguous")
    for density in (False, True):
        assert_same(torch.histogram(npu, 7, density=density), torch.histogram(cpu, 7, density=density))
        given = {"range": (-1.0, 2.0), "density": density}
        assert_same(torch.histogram(npu, 4, weight=npu.abs(), **given), torch.histogram(cpu, 4, weight=cpu.abs(), **given))
        edges = torch.tensor([-2.0, -0.5, 0.0, 3.0])
        assert_same(torch.histogram(npu, edges.npu(), density=density), torch.histogram(cpu, edges, density=density))
        assert_same(torch.histogramdd(npu, 3, density=density), torch.histogramdd(cpu, 3, density=density))
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histogram(npu, 0)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_reductions_over_segments(reduce):
    results = []
    for device in ("cpu", "npu"):
        data = torch.linspace(-1, 2, 24, device=device).view(6, 4).requires_grad_()
        lengths = torch.tensor([1, 0, 3, 2], device=device)
        offsets = torch.tensor([0, 1, 1, 4, 6], device=device)
        first = torch.segment_reduce(data, reduce, lengths=lengths, initial=1.0)
        second = torch.segment_reduce(data, reduce, offsets=offsets, initial=1.0)
        (first.sum() + (second * 2).sum()).backward()
        results.append((first, second, data.grad))
    assert_same(results[1], results[0])
    with pytest.raises(RuntimeError, match="negative"):
        torch.segment_reduce(torch.ones(2, device="npu"), reduce, lengths=torch.tensor([-1, 3], device="npu"))


def test_fractional_pooling_with_given_samples():
    for function, shape, space in ((F.fractional_max_pool2d, (2, 3, 7, 8), 2), (F.fractional_max_pool3d, (2, 3, 5, 7, 8), 3)):
        samples = torch.rand(2, 3, space)
        host = torch.randn(shape)
        results = []
        for device in ("cpu", "npu"):
            x = host.detach().clone().to(device).requires_grad_()
            pooled, indices = function(x, 2, output_size=3, _random_samples=samples.to(device), return_indices=True)
            pooled.square().sum().backward()
            results.append((pooled, indices, x.grad))
        assert_same(results[1], results[0])


def test_a_hash_of_a_tensor():
    cpu, npu = pair("transposed")
    assert_same(torch.hash_tensor(npu), torch.hash_tensor(cpu))
    assert_same(torch.hash_tensor(npu, dim=1, keepdim=True), torch.hash_tensor(cpu, dim=1, keepdim=True))
