"""amp.initialize, its undo, and the checkpoints of the scales."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from typing import Any

import torch

from ._amp_state import _amp_state, maybe_print
from ._initialize import initialize_models, uninitialize_all
from .properties import LEVELS, Properties, checked_positive
from .scaler import LossScaler

opt_levels = LEVELS

_OPTIONS = (
    *("enabled", "opt_level", "cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32", "master_weights", "loss_scale"),
    *("cast_model_outputs", "num_losses", "verbosity", "dynamic_init_scale", "scale_growth_factor", "scale_backoff_factor"),
    *("scale_window", "min_loss_scale", "max_loss_scale", "combine_grad", "combine_ddp", "ddp_replica_count"),
    *("user_cast_preferred", "check_combined_tensors"),
)


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | None = None,
    patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | None = None,
    loss_scale: float | str | None = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    dynamic_init_scale: float = 2.0**16,
    scale_growth_factor: float = 2.0,
    scale_backoff_factor: float = 0.5,
    scale_window: int = 2000,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
    combine_grad: bool | None = None,
    combine_ddp: bool | None = None,
    ddp_replica_count: int = 4,
    user_cast_preferred: bool | None = None,
    check_combined_tensors: bool | None = None,
    **unknown: Any,
) -> Any:
    """Prepares models and optimizers, one or a list of each, for mixed precision, in place, and returns them.

    Call it after the model is on its device and the optimizer exists, and before DistributedDataParallel. None as an option
    means the default of the level. loss_scale: a number, "dynamic", or -1 for dynamic. docs/apex.md lists the options.
    """
    if unknown:
        name = next(iter(unknown))
        close = difflib.get_close_matches(name, _OPTIONS, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(_OPTIONS)}"
        raise TypeError(f"amp.initialize has no option {name!r}: {hint}")
    if not enabled:
        if not hasattr(_amp_state, "opt_properties"):
            _amp_state.opt_properties = Properties()
        _amp_state.verbosity = verbosity
        return models if optimizers is None else (models, optimizers)

    properties = Properties(opt_level)
    for name, value in (
        ("cast_model_type", cast_model_type),
        ("patch_torch_functions", patch_torch_functions),
        ("keep_batchnorm_fp32", keep_batchnorm_fp32),
        ("master_weights", master_weights),
        ("loss_scale", loss_scale),
        ("combine_grad", combine_grad),
        ("combine_ddp", combine_ddp),
        ("ddp_replica_count", ddp_replica_count),
        ("user_cast_preferred", user_cast_preferred),
        ("check_combined_tensors", check_combined_tensors),
    ):
        if value is not None:
            setattr(properties, name, value)
    if not isinstance(num_losses, int) or isinstance(num_losses, bool) or num_losses < 1:
        raise ValueError(f"num_losses must be a whole number of at least 1, not {num_losses!r}")
    if cast_model_outputs is not None and not isinstance(cast_model_outputs, torch.dtype):
        raise TypeError(f"cast_model_outputs must be a dtype such as torch.float32, not {cast_model_outputs!r}")
    scalers = [
        LossScaler(
            properties.loss_scale,
            init_scale=dynamic_init_scale,
            scale_growth_factor=scale_growth_factor,
            scale_backoff_factor=scale_backoff_factor,
            scale_window=scale_window,
            min_loss_scale=min_loss_scale,
            max_loss_scale=max_loss_scale,
        )
        for _ in range(num_losses)
    ]

    result = initialize_models(models, optimizers, properties, cast_model_outputs)
    _amp_state.opt_properties, _amp_state.verbosity = properties, verbosity
    _amp_state.min_loss_scale, _amp_state.max_loss_scale = min_loss_scale, max_loss_scale
    _amp_state.loss_scalers = scalers
    maybe_print(f"Selected optimization level {opt_level}:  {LEVELS[opt_level][0]}.", rank0=True)
    maybe_print("After processing overrides, optimization options are:", rank0=True)
    for name, value in properties.options.items():
        maybe_print(f"{name:22} : {value}", rank0=True)
    return result


def uninitialize() -> None:
    """Undoes amp.initialize: functions of torch, models and optimizers are as before it, with the values that training gave the
    parameters. A model that O2 cast gets the float32 values of the master weights."""
    uninitialize_all()


def state_dict(destination: dict[str, Any] | None = None) -> dict[str, Any]:
    """The scales of the losses, for a checkpoint. Models and optimizers have their own state_dict()."""
    _check_initialized("state_dict")
    destination = OrderedDict() if destination is None else destination
    for index, scaler in enumerate(_amp_state.loss_scalers):
        destination[f"loss_scaler{index}"] = {"loss_scale": scaler.loss_scale(), "unskipped": scaler._unskipped}
    return destination


def load_state_dict(state_dict: dict[str, Any]) -> None:
    """Restores the scales of a state_dict() with as many losses."""
    _check_initialized("load_state_dict")
    if not isinstance(state_dict, dict):
        raise TypeError(f"amp.load_state_dict takes the dictionary of amp.state_dict(), not {type(state_dict).__name__}")
    scalers = _amp_state.loss_scalers
    unexpected = [str(key) for key in state_dict if "loss_scaler" not in str(key)]
    if unexpected:
        raise RuntimeError(f"amp.load_state_dict: unexpected keys {', '.join(unexpected)}: pass what amp.state_dict() returned")
    if not _amp_state.opt_properties.enabled:
        return
    if len(state_dict) != len(scalers):
        raise RuntimeError(
            f"amp.load_state_dict: the checkpoint has {len(state_dict)} loss scalers, and this program has {len(scalers)}: pass "
            f"num_losses={len(state_dict)} to amp.initialize"
        )
    loaded = []
    for key, state in state_dict.items():
        if not isinstance(state, dict) or not {"loss_scale", "unskipped"} <= state.keys():
            raise RuntimeError(f"amp.load_state_dict: {key} must have loss_scale and unskipped, not {state!r}")
        loaded.append((checked_positive(f"loss_scale of {key}", state["loss_scale"]), int(state["unskipped"])))
    for scaler, (scale, unskipped) in zip(scalers, loaded, strict=True):
        scaler._loss_scale, scaler._unskipped = scale, unskipped


def _check_initialized(name: str) -> None:
    if not hasattr(_amp_state, "opt_properties"):
        raise RuntimeError(f"amp.{name} needs amp.initialize first: model, optimizer = amp.initialize(model, optimizer)")
