"""How far tensors and numbers are apart, and whether that is too far: a sentence that says so, or None.

    number_problem(1.0, 2.0, prec=1e-4, allow_inf=False)     # "1.0 and 2.0 differ by 1, more than 0.0001"

Tensors are on the CPU and have one shape. torch_npu.testing.testcase has the rules.
"""

import torch

_OUTLIERS = 10.0


def number_problem(x, y, prec, allow_inf):
    if not allow_inf and torch.inf in (abs(x), abs(y)):
        return f"{x!r} and {y!r} are not finite; allow_inf=True compares them"
    if x == y or (x != x and y != y) or abs(x - y) <= prec:
        return None
    return f"{x!r} and {y!r} differ by {abs(x - y):g}, more than {prec:g}"


def tensor_problem(x, y, prec, allow_inf):
    if not x.numel():
        return None
    x, y = _wide(x), _wide(y)
    if not allow_inf and (x.isinf().any() or y.isinf().any()):
        return "there are infinities; allow_inf=True compares them"
    apart = _differences(x, y)
    if bool((apart <= prec).all()):
        return None
    return f"{_worst(x, y, apart)} differ by {apart.max().item():g}, more than {prec:g}"


def rtol_problem(x, y, prec):
    if not x.numel():
        return None
    if x.dtype == torch.bool:
        prec = 0.0
    apart = _differences(x, y)
    larger = torch.maximum(_wide(x).abs().double(), _wide(y).abs().double())
    if x.dtype == torch.bfloat16:
        good = bool(((apart == 0) | (apart <= prec + prec * _wide(y).abs()) & apart.isfinite()).all())
    else:
        smallest = 6e-8 if x.dtype == torch.float16 else 1e-9
        good = _within(apart, prec) or _within((apart / (larger + smallest)).masked_fill(apart == 0, 0.0), prec)
    if good:
        return None
    count = int((apart > prec).sum())
    return f"{count} of {x.numel()} elements differ by more than {prec:g}; the most {_worst(x, y, apart)}"


def _wide(tensor):
    """As the dtype in which differences of such numbers are exact, or almost."""
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.dtype.is_floating_point else tensor.long()


def _differences(x, y):
    """How far elements are apart; none where they are equal or both are NaN, infinitely far where one is NaN or an infinity."""
    x, y = _wide(x), _wide(y)
    apart = (x - y).abs().double()
    same = (x == y) | (x.isnan() & y.isnan())
    return apart.masked_fill(apart.isnan(), torch.inf).masked_fill(same, 0.0)


def _worst(x, y, apart):
    index = int(apart.argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(index), apart.shape)) if apart.dim() else ()
    return f"{x[place].item()!r} and {y[place].item()!r}" + (f" at {place}" if place else "")


def _within(error, prec):
    """Whether errors are within prec, but for a share of prec of them, and those within ten times that."""
    error = error.nan_to_num(torch.inf, posinf=torch.inf)
    bad = error > prec
    return int(bad.sum()) <= prec * error.numel() and bool((error <= _OUTLIERS * prec).all())
