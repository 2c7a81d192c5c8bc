"""Sample inputs of operators for OpInfo entries. torch.testing._internal is imported when they are called."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from torch.testing import make_tensor


def sample_inputs_normal_tensor_second(self: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Any:
    """Samples of torch.normal whose second argument is a number or a tensor."""
    from torch.testing._internal.common_methods_invocations import sample_inputs_normal_common

    cases: list[Any] = [([3, 4], 0.3, {}), ([3, 55], 0, {}), ([5, 6, 7, 8], [5, 6, 7, 8], {})]
    return sample_inputs_normal_common(self, device, dtype, requires_grad, cases, **kwargs)


def sample_inputs_median_custom(self: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Iterator[Any]:
    """Samples of torch.median: empty tensors, then the samples of reductions."""
    from torch.testing._internal.common_methods_invocations import SampleInput, sample_inputs_reduction

    make = functools.partial(make_tensor, device=device, dtype=dtype, requires_grad=requires_grad)
    for shape in [(2, 0), (0, 2)]:
        yield SampleInput(make(shape))
    yield from sample_inputs_reduction(self, device, dtype, requires_grad, **kwargs)
