"""The options of amp.initialize: the defaults of each level, and the checks of each option."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._amp_state import warn_or_err

# Level -> (description, options that differ from Properties.DEFAULTS).
LEVELS: dict[str, tuple[str, dict[str, Any]]] = {
    "O0": ("float32 training", {"cast_model_type": torch.float32, "master_weights": False, "loss_scale": 1.0}),
    "O1": ("float16 or float32 for each function", {"patch_torch_functions": True, "loss_scale": "dynamic"}),
    "O2": (
        "float16 model with float32 batch norm and float32 master weights",
        {"cast_model_type": torch.float16, "keep_batchnorm_fp32": True, "master_weights": True, "loss_scale": "dynamic"},
    ),
    "O3": (
        "float16 training",
        {"cast_model_type": torch.float16, "keep_batchnorm_fp32": False, "master_weights": False, "loss_scale": 1.0},
    ),
}


class Properties:
    """The options as attributes. Setting one checks it against the level."""

    DEFAULTS: dict[str, Any] = {  # noqa: RUF012
        "enabled": False,
        "opt_level": None,
        "cast_model_type": None,
        "patch_torch_functions": False,
        "keep_batchnorm_fp32": None,
        "master_weights": None,
        "loss_scale": 1.0,
        "combine_grad": None,
        "combine_ddp": None,
        "ddp_replica_count": 4,
        "check_combined_tensors": None,
        "user_cast_preferred": None,
    }

    options: dict[str, Any]

    def __init__(self, opt_level: str | None = None) -> None:
        self.__dict__["options"] = dict(self.DEFAULTS)
        if opt_level is None:
            return
        if opt_level not in LEVELS:
            raise RuntimeError(
                f"amp.initialize: opt_level {opt_level!r} is unknown: use 'O0', 'O1', 'O2' or 'O3', with the letter O in front"
            )
        self.options.update(LEVELS[opt_level][1], enabled=True, opt_level=opt_level)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("options", {}):
            return self.options[name]
        raise AttributeError(f"amp has no option {name!r}: it has {', '.join(self.DEFAULTS)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.options:
            raise AttributeError(f"amp has no option {name!r}: it has {', '.join(self.DEFAULTS)}")
        check = getattr(self, f"_check_{name}", None)
        self.options[name] = check(value) if check else value

    def _check_cast_model_type(self, value: Any) -> Any:
        if value is not None and value is not False and not (isinstance(value, torch.dtype) and value.is_floating_point):
            raise TypeError(f"cast_model_type must be a floating dtype, not {value!r}: write torch.float16 or torch.float32")
        if self.opt_level == "O1" and value not in (None, False, torch.float32):
            warn_or_err(f"O1 keeps the weights in float32, so cast_model_type={value} needs opt_level='O2' or 'O3'")
        return None if value is False else value

    def _check_patch_torch_functions(self, value: Any) -> Any:
        if value and self.opt_level != "O1":
            warn_or_err(f"patch_torch_functions=True needs opt_level='O1', not {self.opt_level!r}")
        return value

    def _check_keep_batchnorm_fp32(self, value: Any) -> Any:
        value = {"True": True, "False": False}.get(value, value)
        if value not in (True, False, None):
            raise TypeError(f"keep_batchnorm_fp32 must be True, False, 'True', 'False' or None, not {value!r}")
        if self.opt_level == "O1" and value is not None:
            warn_or_err(f"O1 runs batch norm in float32 itself: leave out keep_batchnorm_fp32={value}")
        return value

    def _check_master_weights(self, value: Any) -> Any:
        if self.opt_level == "O1" and value is not None:
            warn_or_err(f"O1 has no master weights, because its weights are float32: leave out master_weights={value}")
        return value

    def _check_loss_scale(self, value: Any) -> Any:
        return checked_loss_scale(value)

    def _check_combine_grad(self, value: Any) -> Any:
        return self._only_for(("O1", "O2"), "combine_grad", value)

    def _check_check_combined_tensors(self, value: Any) -> Any:
        return self._only_for(("O1", "O2"), "check_combined_tensors", value)

    def _check_user_cast_preferred(self, value: Any) -> Any:
        return self._only_for(("O1",), "user_cast_preferred", value)

    def _check_combine_ddp(self, value: Any) -> Any:
        if value and not self.combine_grad:
            warn_or_err("combine_ddp=True needs combine_grad=True: pass both to amp.initialize")
        return value

    def _check_ddp_replica_count(self, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"ddp_replica_count must be a whole number of at least 1, not {value!r}")
        return value

    def _only_for(self, levels: tuple[str, ...], name: str, value: Any) -> Any:
        if value and self.opt_level not in levels:
            warn_or_err(f"{name}=True needs opt_level={' or '.join(map(repr, levels))}, not {self.opt_level!r}")
        return value


def checked_loss_scale(value: Any) -> float | str:
    """A positive number, or "dynamic"; -1 means dynamic too."""
    if value == "dynamic":
        return value
    try:
        scale = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"loss_scale must be a positive number, 'dynamic' or -1 for dynamic, not {value!r}") from None
    if scale == -1:
        return "dynamic"
    return checked_positive("loss_scale", scale, " (-1 and 'dynamic' choose a dynamic scale)")


def checked_positive(name: str, value: Any, hint: str = "") -> float:
    """The number, which must be positive and finite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a positive number, not {value!r}{hint}") from None
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"{name} must be a positive finite number, not {value!r}{hint}")
    return number
