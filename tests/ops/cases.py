"""The cases: one check of one entry of the databases with one dtype.

collect()["add/float32/forward"].run()
collect()["nn.Linear/float32/train"].run(full=True)
"""

import dataclasses
import traceback
import warnings
import zlib
from collections.abc import Callable

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree

from . import checks, forms, lifetime, modules
from .runner import Result

# Random entries set a seed in each call. Here the checks choose the seed.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

# These indices are on the CPU for every device.
for info in op_db:
    if info.name == "tensor_split":
        info.op = lambda input, at, *args, **kwargs: torch.tensor_split(
            input, at.cpu() if isinstance(at, torch.Tensor) else at, *args, **kwargs
        )

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
MORE_DTYPES = (
    torch.float64, torch.complex64, torch.complex128, torch.complex32, torch.int8, torch.int16, torch.int32, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu,
)  # fmt: skip

# Samples per case, by check, in the quick and in the whole sweep.
SAMPLES = {
    "forward": (3, 200),
    "refusals": (2, 20),
    "backward": (2, 100),
    "layout": (1, 40),
    "inplace": (2, 40),
    "out": (1, 20),
    "strides": (2, 40),
    "errors": (100, 200),
    "seed": (1, 5),
    "conj": (1, 20),
    "neg": (1, 20),
    "cow": (1, 20),
    "jvp": (1, 40),
    "gradgrad": (1, 40),
    "vmap": (1, 40),
    "freed": (1, 20),
    "train": (2, 100),
    "evaluate": (2, 100),
}


# The quick sweep takes every n-th of these cases, chosen by id: dtypes beyond the first five, and forms.
SHARE_OF_DTYPES = 5
SHARE_OF_FORMS = 2


@dataclasses.dataclass
class Case:
    id: str
    check: Callable
    info: object
    dtype: torch.dtype

    @property
    def kind(self):
        return self.id.rsplit("/", 1)[1]

    @property
    def quick(self):
        """Whether it belongs to the quick sweep."""
        share = SHARE_OF_DTYPES if self.dtype in MORE_DTYPES else SHARE_OF_FORMS if hasattr(forms, self.kind) else 1
        return zlib.crc32(self.id.encode()) % share == 0

    def run(self, full=False, raising=False):
        """Runs the case with the samples of the whole or of the quick sweep. raising=True: the first difference is raised."""
        return run(lambda: self.check(self.info, self.dtype, SAMPLES[self.kind][full]), raising)


def run(check, raising=False):
    """Runs a check, then checks the device's memory for damage."""
    import torch_npu

    found, count = [], 0
    torch.npu.reset_fallback_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for sample, text in check():
                count += 1
                if text:
                    found.append(f"{text}\n    with {describe(sample)}")
                    if raising:
                        raise AssertionError(found[0])
            torch.npu.synchronize()
            if torch_npu.softnpu.control("memory-checks").strip() != "none":
                torch_npu.softnpu.control("check-memory")
        except Exception:
            if raising:
                raise
            found.append(traceback.format_exc(limit=-6))
    status = "failed" if found else "passed" if count else "skipped"
    return Result(
        status, f"{len(found)} of {count} differ; {found[0]}" if found else "", count, sorted(torch.npu.fallback_stats())
    )


def describe(sample):
    def show(value):
        if not isinstance(value, torch.Tensor):
            return value
        strides = (
            "" if value.layout != torch.strided or value.is_nested or value.is_contiguous() else f" strides {value.stride()}"
        )
        return f"<{str(value.dtype).removeprefix('torch.')}{list(value.shape) if not value.is_nested else ' nested'}{strides}>"

    return str(_pytree.tree_map(show, (sample.input, *sample.args, sample.kwargs))).replace("'<", "<").replace(">'", ">")[:600]


def of_operator(info):
    """The checks of an entry, with their dtypes."""
    supported, differentiable = info.supported_dtypes("cpu"), info.supported_backward_dtypes("cpu")
    for dtype in (*DTYPES, *MORE_DTYPES):
        yield (checks.forward if dtype in supported else checks.refusals), dtype
        if dtype in differentiable:
            yield checks.backward, dtype
        if dtype in supported and dtype in (torch.float32, torch.int64):
            yield checks.layout, dtype
    first = next((dtype for dtype in DTYPES if dtype in supported), None)
    if first is None:
        return
    yield checks.seed, first
    yield checks.strides, first
    if info.supports_out:
        yield checks.out, first
    if info.get_inplace() is not None:
        yield checks.inplace, first
    if info.error_inputs_func is not None:
        yield checks.errors, first
    if torch.complex64 in supported:
        yield forms.conj, torch.complex64
    if first.is_floating_point:
        yield forms.neg, first
    yield forms.cow, first
    yield forms.vmap, first
    yield lifetime.freed, first
    if torch.float64 in differentiable and info.supports_forward_ad:
        yield forms.jvp, torch.float64
    if torch.float64 in differentiable and info.supports_gradgrad:
        yield forms.gradgrad, torch.float64


def collect():
    """All cases by id, in the order of the databases."""
    made = [(info.full_name, check, info, dtype) for info in op_db for check, dtype in of_operator(info)]
    for info in module_db:
        if torch.float32 in info.supported_dtypes("cpu"):
            made += [(info.name, check, info, torch.float32) for check in (modules.train, modules.evaluate)]
    cases = {}
    for name, check, info, dtype in made:
        id = f"{name}/{str(dtype).removeprefix('torch.')}/{check.__name__}"
        assert id not in cases, id
        cases[id] = Case(id, check, info, dtype)
    return cases
