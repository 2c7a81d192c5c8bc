"""unittest.TestCase with comparisons of tensors on any device.

assertEqual(x, y, prec) compares tensors, numbers and containers of them: no two elements differ by more than prec (1e-5). NaN is
equal to NaN; infinities are equal only with allow_inf=True.

assertRtolEqual(x, y, prec=1e-4, prec16=1e-3) is for results of different devices. Shape and dtype must be equal. Differences are
measured absolutely, and relative to the larger of both. By one of the two measures, all elements must be within prec (prec16 for
float16), except for a share of prec of them, which may differ by up to ten times prec. bfloat16 is compared as by
torch.allclose(rtol=prec16, atol=prec16), bool exactly. Equal elements, also infinities, and NaN in the same places pass.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import time
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Number
from pathlib import Path
from typing import Any

import torch

from ._differences import number_problem, rtol_problem, tensor_problem
from .common_utils import PERF_TEST_ENABLE, PerfBaseline, is_iterable, set_npu_device


def run_tests() -> None:
    """Runs the tests of the program, as unittest.main() does."""
    unittest.main(argv=sys.argv)


class TestCase(unittest.TestCase):
    precision = 1e-5
    exact_dtype = False
    maxDiff = None
    npu_device: str

    def __init__(self, method_name: str = "runTest") -> None:
        super().__init__(method_name)

    @classmethod
    def setUpClass(cls) -> None:
        cls.npu_device = set_npu_device()

    def setUp(self) -> None:
        seed = int(os.getenv("SEED", "666"))
        torch.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)

    def run(self, result: unittest.TestResult | None = None) -> Any:
        """With PERF_TEST_ENABLE a test runs twice. The second run fails if it takes more than 1.2 times the stored duration."""
        done = super().run(result)
        if PERF_TEST_ENABLE:
            self._run_again(result)
        return done

    def assertEqual(
        self, x: Any, y: Any, prec: Any = None, message: str = "", allow_inf: bool = False, exact_dtype: bool | None = None
    ) -> None:
        if isinstance(prec, str) and not message:
            prec, message = None, prec
        exact = self.exact_dtype if exact_dtype is None else exact_dtype
        self._compare(x, y, self.precision if prec is None else prec, message or None, allow_inf, exact)

    def assertNotEqual(self, x: Any, y: Any, prec: Any = None, message: str = "") -> None:
        try:
            self.assertEqual(x, y, prec, allow_inf=True)
        except self.failureException:
            return
        self.fail(self._formatMessage(message or None, f"{x!r} and {y!r} are equal"))

    def assertAlmostEqual(
        self, x: Any, y: Any, places: int | None = None, msg: Any = None, delta: Any = None, allow_inf: bool | None = None
    ) -> None:
        self.assertEqual(x, y, 10.0**-places if places else delta, msg or "", bool(allow_inf))

    def assertRtolEqual(
        self,
        x: Any,
        y: Any,
        prec: float = 1.0e-4,
        prec16: float = 1.0e-3,
        auto_trans_dtype: bool = False,
        message: str | None = None,
    ) -> None:
        if _is_sequence(x) and _is_sequence(y):
            if len(x) != len(y):
                self.fail(self._formatMessage(message, f"there are {len(x)} values on one side, {len(y)} on the other"))
            for one, other in zip(x, y, strict=True):
                self.assertRtolEqual(one, other, prec, prec16, auto_trans_dtype, message)
            return
        if isinstance(x, torch.Tensor) and _is_sequence(y):
            y = torch.as_tensor(y, dtype=x.dtype)
        elif isinstance(y, torch.Tensor) and _is_sequence(x):
            x = torch.as_tensor(x, dtype=y.dtype)
        x, y = (_tensor(value).detach().cpu() for value in (x, y))
        if auto_trans_dtype:
            x = x.to(y.dtype)
        if x.shape != y.shape:
            self.fail(self._formatMessage(message, f"the shapes {tuple(x.shape)} and {tuple(y.shape)} differ"))
        if x.dtype != y.dtype:
            self.fail(self._formatMessage(message, f"the dtypes {x.dtype} and {y.dtype} differ"))
        wrong = rtol_problem(x, y, prec16 if x.dtype in (torch.float16, torch.bfloat16) else prec)
        if wrong:
            self.fail(self._formatMessage(message, wrong))

    def assertTensorsSlowEqual(self, x: Any, y: Any, prec: Any = None, message: str = "") -> None:
        self.assertEqual(x, y, prec, message, exact_dtype=True)

    def assertObjectIn(self, obj: object, iterable: Iterable[Any]) -> None:
        """Fails unless the iterable contains the object itself; an equal object does not count."""
        if not any(obj is each for each in iterable):
            self.fail(f"{obj!r} is not in {iterable!r}")

    def assertWarns(self, call_fn: Callable[..., Any], msg: Any = "") -> None:  # type: ignore[override]
        if not _warnings_of(call_fn):
            self.fail(self._formatMessage(msg or None, "there was no warning"))

    def assertNotWarn(self, call_fn: Callable[..., Any], msg: Any = "") -> None:
        seen = _warnings_of(call_fn)
        if seen:
            self.fail(self._formatMessage(msg or None, f"there was the warning: {seen[0].message}"))

    @contextlib.contextmanager
    def maybeWarnsRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        """Context manager: fails for any warning except of this category and text."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", message=regex, category=category)
            yield
        if seen:
            self.fail(f"there was the warning: {seen[0].message}")

    def assertExpected(self, s: str, subname: str | None = None) -> None:
        """Compares a text with the file expect/CLASS.METHOD[-SUBNAME].expect beside the test; EXPECTTEST_ACCEPT=1 writes it."""
        folder = Path(str(sys.modules[type(self).__module__].__file__)).parent / "expect"
        file = folder / f"{type(self).__name__}.{self._testMethodName}{f'-{subname}' if subname else ''}.expect"
        if os.getenv("EXPECTTEST_ACCEPT"):
            folder.mkdir(exist_ok=True)
            file.write_text(s)
        if not file.exists():
            self.fail(f"there is no {file}; run the test with EXPECTTEST_ACCEPT=1 to write it. It would hold:\n{s}")
        super().assertEqual(s, file.read_text())

    def assertExpectedRaises(self, exc_type: type[BaseException], call_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Fails unless the call raises exc_type with the text of a file, as in assertExpected; `subname` is a keyword
        argument."""
        subname = kwargs.pop("subname", None)
        with self.assertRaises(exc_type) as context:
            call_fn(*args, **kwargs)
        self.assertExpected(str(context.exception), subname)

    def assertExpectedStripMangled(self, s: str, subname: str | None = None) -> None:
        self.assertExpected(re.sub(r"__torch__[^ ]+", "", s), subname)

    def genSparseTensor(
        self, size: Sequence[int], sparse_dim: int, nnz: int, is_uncoalesced: bool, device: Any = "cpu"
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A random sparse COO tensor of nnz entries, its indices and its values. is_uncoalesced: each index occurs twice."""
        if nnz and not all(size[:sparse_dim]):
            raise RuntimeError(f"a tensor of the size {tuple(size)} has no room for {nnz} entries")
        limits = torch.tensor(size[:sparse_dim], dtype=torch.float32).unsqueeze(1)
        indices = (torch.rand(sparse_dim, nnz) * limits).long().to(device)
        values = torch.randn(nnz, *size[sparse_dim:]).to(device)
        if is_uncoalesced:
            indices, values = torch.cat([indices, indices], 1), torch.cat([values, torch.randn_like(values)])
        made = torch.sparse_coo_tensor(indices, values, size, check_invariants=True)
        made = made if is_uncoalesced else made.coalesce()
        return made, made._indices().clone(), made._values().clone()

    def safeCoalesce(self, t: torch.Tensor) -> torch.Tensor:
        """t.coalesce(), after a check against adding the entries one by one."""
        coalesced = t.coalesce()
        self.assertTrue(coalesced.is_coalesced())
        sums: dict[tuple[int, ...], torch.Tensor] = {}
        for index, value in zip(t._indices().t().tolist(), t._values(), strict=True):
            key = tuple(index)
            sums[key] = sums[key] + value if key in sums else value.clone()
        keys = sorted(sums)
        self.assertEqual([tuple(index) for index in coalesced._indices().t().tolist()], keys)
        if keys:
            self.assertEqual(coalesced._values(), torch.stack([sums[key] for key in keys]))
        return coalesced

    def safeToDense(self, t: torch.Tensor) -> torch.Tensor:
        return self.safeCoalesce(t).to_dense()

    def _compare(self, x: Any, y: Any, prec: float, message: str | None, allow_inf: bool, exact_dtype: bool) -> None:
        x, y = _known(x), _known(y)
        if isinstance(x, torch.Tensor) and isinstance(y, Number):
            x = x.item() if x.numel() == 1 else x
        elif isinstance(y, torch.Tensor) and isinstance(x, Number):
            y = y.item() if y.numel() == 1 else y
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            self._compare_tensors(x, y, prec, message, allow_inf, exact_dtype)
        elif (isinstance(x, torch.Tensor) and isinstance(y, Number)) or (isinstance(y, torch.Tensor) and isinstance(x, Number)):
            self.fail(self._formatMessage(message, f"{x!r} and {y!r}: a tensor of several elements is no number"))
        elif isinstance(x, Number) and isinstance(y, Number):
            wrong = number_problem(x, y, prec, allow_inf)
            if wrong:
                self.fail(self._formatMessage(message, wrong))
        elif isinstance(x, dict) and isinstance(y, dict):
            super().assertEqual(x.keys(), y.keys(), message)
            for key in x:
                self._compare(x[key], y[key], prec, message, allow_inf, exact_dtype)
        elif _is_plain(x) or _is_plain(y) or not (is_iterable(x) and is_iterable(y)):
            super().assertEqual(x, y, message)
        else:
            super().assertEqual(len(x), len(y), message)
            for one, other in zip(x, y, strict=True):
                self._compare(one, other, prec, message, allow_inf, exact_dtype)

    def _compare_tensors(
        self, x: torch.Tensor, y: torch.Tensor, prec: float, message: str | None, allow_inf: bool, exact_dtype: bool
    ) -> None:
        super().assertEqual(tuple(x.shape), tuple(y.shape), message)
        super().assertEqual((x.layout, x.is_quantized), (y.layout, y.is_quantized), message)
        if exact_dtype or torch.bool in (x.dtype, y.dtype):
            super().assertEqual(x.dtype, y.dtype, message)
        if x.is_sparse:
            x, y = x.coalesce(), y.coalesce()
            self._compare_tensors(x.indices(), y.indices(), 0, message, allow_inf, exact_dtype)
            self._compare_tensors(x.values(), y.values(), prec, message, allow_inf, exact_dtype)
            return
        if x.is_quantized:
            x, y = x.dequantize(), y.dequantize()
        wrong = tensor_problem(x.detach().cpu(), y.detach().cpu(), prec, allow_inf)
        if wrong:
            self.fail(self._formatMessage(message, wrong))

    def _run_again(self, result: unittest.TestResult | None) -> None:
        repeated = unittest.TestResult()
        begin = time.perf_counter()
        super().run(repeated)
        took = time.perf_counter() - begin
        if not repeated.wasSuccessful():
            return
        name = self.id()
        best = PerfBaseline.get_baseline(name)
        if result is not None and best is not None and took > 1.2 * best:
            error = self.failureException(f"it took {took:.3f} s, but {best:.3f} s before")
            result.addFailure(self, (type(error), error, None))  # type: ignore[arg-type]
        if best is None or took < 0.9 * best:
            PerfBaseline.set_baseline(name, took)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, bytes, set, frozenset, Number))


def _known(value: Any) -> Any:
    """Converts arrays and scalars of numpy to tensors; returns anything else unchanged."""
    is_numpy = type(value).__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind in "biufc"
    return torch.as_tensor(value) if is_numpy else value


def _tensor(value: Any) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)


def _warnings_of(function: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        function()
    return seen
