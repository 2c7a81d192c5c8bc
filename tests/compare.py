"""Comparison of npu with the CPU, for all tests but the sweep (tests/ops/compare.py has the tolerances of PyTorch's database).

    assert_same(torch.sort(x.npu()), torch.sort(x))          # all of it: device, dtype, shape, strides, values
    assert_close(torch_npu.npu_gelu(x.npu()), formula(x))    # dtype, shape and values; the result may be on any device
    assert_same_outcome(torch.take, (x, index), (x.npu(), index.npu()))    # the same result, or the same refusal
    losses = on_both(lambda device: train(device))           # the same result of a function of the device

The first argument is the result that is tested, the second the expected one. A difference raises AssertionError. Values may
differ by atol + rtol * |expected|. rtol=0, atol=0 asks for equal values; rtol=None, atol=None for the tolerance that
torch.testing.assert_close gives the dtype.
"""

import torch

RTOL, ATOL = 1e-4, 1e-5


def assert_same(npu, cpu, rtol=RTOL, atol=ATOL, strides=True, equal_nan=True):
    """npu is on the device npu and has the structure, type, dtype, layout, shape, strides and values of cpu.

    Takes tensors, plain values, and tuples and lists of them. Strides of tensors without elements are not compared. Sparse
    tensors are compared as dense ones, nested tensors part by part, quantised tensors by integers, scales and zero points.
    """
    options = {"rtol": rtol, "atol": atol, "strides": strides, "equal_nan": equal_nan}
    if isinstance(cpu, tuple | list):
        assert len(npu) == len(cpu)
        for one, other in zip(npu, cpu, strict=True):
            assert_same(one, other, **options)
        return
    if not isinstance(cpu, torch.Tensor):
        assert npu == cpu
        return
    assert npu.device.type == "npu"
    assert (npu.dtype, npu.layout, npu.is_nested) == (cpu.dtype, cpu.layout, cpu.is_nested)
    if cpu.is_nested:
        assert_same(npu.unbind(), cpu.unbind(), **options)
        return
    assert npu.shape == cpu.shape
    if cpu.layout is torch.sparse_coo:
        assert (npu.sparse_dim(), npu.is_coalesced()) == (cpu.sparse_dim(), cpu.is_coalesced())
    if cpu.layout is not torch.strided:
        assert_same(npu.to_dense(), cpu.to_dense(), **options)
        return
    if strides and cpu.numel() > 0:
        assert npu.stride() == cpu.stride()
    if cpu.is_quantized:
        _assert_same_quantized(npu, cpu)
        return
    torch.testing.assert_close(npu.detach().cpu(), cpu.detach(), rtol=rtol, atol=atol, equal_nan=equal_nan)


def _assert_same_quantized(npu, cpu):
    """Integers and rounded values are equal."""
    assert npu.is_quantized and npu.qscheme() == cpu.qscheme()
    assert_same(npu.int_repr(), cpu.int_repr(), rtol=0, atol=0)
    assert_same(npu.dequantize(), cpu.dequantize(), rtol=0, atol=0)
    if cpu.qscheme() == torch.per_tensor_affine:
        assert (npu.q_scale(), npu.q_zero_point()) == (cpu.q_scale(), cpu.q_zero_point())
        return
    assert npu.q_per_channel_axis() == cpu.q_per_channel_axis()
    assert_same(npu.q_per_channel_scales(), cpu.q_per_channel_scales())
    assert_same(npu.q_per_channel_zero_points(), cpu.q_per_channel_zero_points())


def assert_close(result, expected, rtol=RTOL, atol=ATOL):
    """A tensor on any device, or a tuple of them, has the dtype, shape and values of expected. NaN equals nothing."""
    if isinstance(expected, tuple):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_close(one, other, rtol, atol)
        return
    torch.testing.assert_close(result.cpu(), expected, rtol=rtol, atol=atol)


def assert_same_outcome(function, cpu, npu, refusals=(RuntimeError, IndexError), late=False, **options):
    """function(*npu) gives what function(*cpu) gives (`options`: those of assert_same), or both refuse.

    A refusal is one of `refusals`. npu raises the CPU's type with the CPU's first line. With late=True npu may refuse at the
    next synchronisation and with any text: it reads the values of indices only when the operator runs.
    """
    expected = _outcome(function, cpu, refusals, late)
    got = _outcome(function, npu, refusals, late)
    if isinstance(expected, Exception):
        assert isinstance(got, Exception), f"the CPU raises {type(expected).__name__}: {expected}"
        if not late:
            assert type(got) is type(expected), got
            first = str(expected).split("  (Could this")[0].splitlines()[0]  # Only the CPU's message ends with a hint.
            assert str(got).splitlines()[0] == first
        return
    if isinstance(got, Exception):
        raise got
    assert_same(got, expected, **options)


def _outcome(function, arguments, refusals, late):
    try:
        result = function(*arguments)
        if late:
            torch.npu.synchronize()
        return result
    except refusals as error:
        return error


def on_both(function, rtol=RTOL, atol=ATOL):
    """Compares function("npu") with function("cpu"), each called after manual_seed(0), and returns the latter.

    The results are tensors on any device, or trees of them. Structure, dtypes, shapes and values are compared; NaN equals NaN.
    """
    results = []
    for device in ("cpu", "npu"):
        torch.manual_seed(0)
        results.append(torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.detach().cpu(), function(device)))
    cpu, npu = results
    torch.testing.assert_close(npu, cpu, rtol=rtol, atol=atol, equal_nan=True)
    return cpu
