"""Linear algebra: values, layouts, error codes and errors equal those of the CPU, without a fallback."""

import pytest
import torch

from tests.compare import assert_same

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SHAPES = ((3, 3), (2, 4, 4), (2, 1, 3, 3), (0, 3, 3), (2, 0, 0), (1, 1))
LAYOUTS = {"rows": lambda x: x, "columns": lambda x: x.mT, "sliced": lambda x: torch.stack([x, x], -1)[..., 0]}


def random(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def positive(x):
    return x @ x.mH + torch.eye(x.size(-1), dtype=x.dtype)


def unit(x):
    """Factors up to the sign or phase of their columns."""
    return x.abs()


# Name -> function of a square matrix, with a unique result.
SQUARE = {
    "det": torch.linalg.det,
    "slogdet": torch.linalg.slogdet,
    "inv": torch.linalg.inv,
    "inv_ex": torch.linalg.inv_ex,
    "solve": lambda x: torch.linalg.solve(x, x.mT),
    "solve_right": lambda x: torch.linalg.solve(x, x.mT, left=False),
    "lu_factor_ex": torch.linalg.lu_factor_ex,
    "lu": torch.linalg.lu,
    "lu_solve": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x),
    "lu_unpack": lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)),
    "eigvals": lambda x: torch.linalg.eigvals(x).abs().sort(-1)[0],
    "eig": lambda x: [unit(part) for part in torch.linalg.eig(x)],
    "matrix_exp": torch.linalg.matrix_exp,
    "geqrf": torch.geqrf,
    "householder_product": lambda x: torch.linalg.householder_product(*torch.geqrf(x)),
    "ormqr": lambda x: torch.ormqr(*torch.geqrf(x), x),
    "pinv": torch.linalg.pinv,
    "matrix_rank": torch.linalg.matrix_rank,
}
SYMMETRIC = {
    "cholesky": torch.linalg.cholesky,
    "cholesky_upper": lambda x: torch.linalg.cholesky(x, upper=True),
    "cholesky_ex": torch.linalg.cholesky_ex,
    "old_cholesky": torch.cholesky,
    "cholesky_inverse": lambda x: torch.cholesky_inverse(torch.linalg.cholesky(x)),
    "cholesky_solve": lambda x: torch.cholesky_solve(x.mT, torch.linalg.cholesky(x)),
    "eigh": lambda x: [unit(part) for part in torch.linalg.eigh(x)],
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x, UPLO="U"),
    "ldl_factor_ex": torch.linalg.ldl_factor_ex,
    "ldl_solve": lambda x: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x), x),
}


def compare(function, matrix, layout, **tolerance):
    host = LAYOUTS[layout](matrix)
    assert_same(function(LAYOUTS[layout](matrix.npu())), function(host), **tolerance)


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_square_matrix(name, layout):
    for dtype in DTYPES:
        for shape in SHAPES:
            compare(SQUARE[name], random(*shape, dtype=dtype), layout, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("layout", ("rows", "columns"))
def test_a_positive_matrix(name, layout):
    for dtype in DTYPES:
        for shape in SHAPES:
            compare(SYMMETRIC[name], positive(random(*shape, dtype=dtype)), layout, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 5, 3), (2, 1, 4, 4)], ids=str)
def test_least_squares(driver, shape):
    for dtype in DTYPES:
        a, b = random(*shape, dtype=dtype), random(*shape[:-1], 2, dtype=dtype, seed=1)
        expected = torch.linalg.lstsq(a, b, driver=driver)
        assert_same(torch.linalg.lstsq(a.npu(), b.npu(), driver=driver), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
def test_least_squares_of_an_empty_matrix_have_rank_0(driver):
    ranks = torch.linalg.lstsq(torch.empty(2, 0, 3).npu(), torch.empty(2, 0, 3).npu(), driver=driver).rank
    assert ranks.tolist() == [0, 0]


def test_householder_products_from_either_side():
    for dtype in DTYPES:
        reflectors, tau = torch.geqrf(random(2, 4, 3, dtype=dtype))
        other = random(2, 4, 4, dtype=dtype, seed=1)
        for left in (True, False):
            for transpose in (True, False):
                expected = torch.ormqr(reflectors, tau, other, left, transpose)
                assert_same(torch.ormqr(reflectors.npu(), tau.npu(), other.npu(), left, transpose), expected)


def test_a_linear_combination_adds_to_out():
    matrices, numbers = random(3, 4, 5), random(2, 3)
    expected = torch._compute_linear_combination(matrices, numbers)
    assert_same(torch._compute_linear_combination(matrices.npu(), numbers.npu()), expected)
    out = torch.ones(2, 4, 5, dtype=torch.float64, device="npu")
    torch._compute_linear_combination(matrices.npu(), numbers.npu(), out=out)
    torch.testing.assert_close(out.cpu(), expected + 1)


def test_out_may_have_any_layout():
    matrix = positive(random(2, 3, 3))
    for function in (torch.linalg.inv, torch.linalg.cholesky, torch.linalg.eigvalsh, torch.cholesky_inverse, torch.linalg.det):
        expected = function(matrix)
        backwards = torch.empty_like(expected.permute(*reversed(range(expected.dim()))).contiguous())
        for out in (expected.new_empty(0), torch.empty_like(expected), backwards.permute(*reversed(range(expected.dim())))):
            strides = out.stride()
            result = torch.empty_strided(out.shape, strides, dtype=out.dtype, device="npu")
            function(matrix.npu(), out=result)
            assert_same(result, expected, strides=False)
            assert out.numel() == 0 or result.stride() == strides


def test_info_names_the_failed_matrices():
    matrices = torch.stack([torch.eye(3), torch.zeros(3, 3), torch.eye(3)])
    for function in (torch.linalg.cholesky_ex, torch.linalg.inv_ex, torch.linalg.lu_factor_ex, torch.linalg.ldl_factor_ex):
        assert function(matrices.npu()).info.tolist() == function(matrices).info.tolist()


SINGULAR = {
    "cholesky": torch.linalg.cholesky,
    "cholesky_ex": lambda x: torch.linalg.cholesky_ex(x, check_errors=True),
    "old_cholesky": torch.cholesky,
    "cholesky_inverse": torch.cholesky_inverse,
    "inv": torch.linalg.inv,
    "inv_ex": lambda x: torch.linalg.inv_ex(x, check_errors=True),
    "solve": lambda x: torch.linalg.solve(x, x),
    "solve_ex": lambda x: torch.linalg.solve_ex(x, x, check_errors=True),
    "lu_factor": torch.linalg.lu_factor,
    "lu_factor_ex": lambda x: torch.linalg.lu_factor_ex(x, check_errors=True),
    "ldl_factor_ex": lambda x: torch.linalg.ldl_factor_ex(x, check_errors=True),
    "svd": lambda x: torch.linalg.svd(x / x),
    "svdvals": lambda x: torch.linalg.svdvals(x / x),
    "eigh": lambda x: torch.linalg.eigh(x / x),
}
MALFORMED = {
    "not_square": lambda x: torch.linalg.inv(x[..., :2]),
    "no_matrix": lambda x: torch.linalg.eigh(x[0, 0]),
    "half": lambda x: torch.linalg.cholesky(x.half()),
    "half_lu": lambda x: torch.linalg.lu(x.half()),
    "integers": lambda x: torch.linalg.det(x.long()),
    "no_pivots": lambda x: torch.linalg.lu(x, pivot=False),
    "triangle": lambda x: torch.linalg.eigh(x, UPLO="X"),
    "other_rows": lambda x: torch.linalg.solve(x, x[:, :2]),
    "driver": lambda x: torch.linalg.lstsq(x, x, driver="qr"),
    "wrong_out": lambda x: torch.linalg.eig(x, out=(x.new_empty(0), x.new_empty(0))),
    "nan": lambda x: torch.linalg.eig(x / 0),
    "reflectors": lambda x: torch.linalg.householder_product(x, x),
}


@pytest.mark.parametrize("name", SINGULAR | MALFORMED)
def test_a_failure_is_raised_by_the_call_with_the_text_of_the_cpu(name):
    call = (SINGULAR | MALFORMED)[name]
    matrices = torch.stack([torch.eye(3), torch.zeros(3, 3)])
    with pytest.raises(Exception) as expected:
        call(matrices)
    with pytest.raises(expected.type) as found:
        call(matrices.npu())
    if "not implemented for" in str(expected.value):  # each device names its own kernel
        assert "not implemented for 'Half'" in str(found.value)
    else:
        assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]
    torch.npu.synchronize()


def test_tensors_of_two_devices_are_refused():
    matrix = torch.eye(3, device="npu")
    for function in (torch.cholesky_inverse, torch.linalg.eigvalsh, torch.linalg.inv, torch.linalg.eigvals, torch.linalg.svdvals):
        with pytest.raises(RuntimeError, match="tensors to be on the same device"):
            function(matrix, out=torch.empty(0))
    with pytest.raises(RuntimeError, match="tensors to be on the same device"):
        torch.linalg.householder_product(matrix, torch.ones(3))


def test_gradients_equal_those_of_the_cpu():
    def loss(x):
        y = x @ x.mT + torch.eye(3, dtype=x.dtype, device=x.device)
        values, vectors = torch.linalg.eigh(y)
        return (
            torch.linalg.cholesky(y).sum()
            + torch.linalg.slogdet(y)[1]
            + torch.linalg.solve(y, x).sum()
            + (vectors @ values).abs().sum()
        )

    cpu = random(3, 3).requires_grad_()
    npu = cpu.detach().npu().requires_grad_()
    loss(cpu).backward()
    loss(npu).backward()
    assert_same(npu.grad, cpu.grad)
