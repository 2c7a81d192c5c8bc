"""Packages of NVIDIA's apex that are not offered: importing one raises ImportError with what to use instead."""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any

_USE = {
    "RNN": "torch.nn.LSTM, GRU or RNN",
    "contrib.bottleneck": "torchvision.models.resnet.Bottleneck",
    "contrib.clip_grad": "torch.nn.utils.clip_grad_norm_, or clip_optimizer_grad_norm_fused of the optimizer",
    "contrib.conv_bias_relu": "torch.nn.Conv2d and torch.nn.ReLU",
    "contrib.fmha": "torch.nn.functional.scaled_dot_product_attention",
    "contrib.focal_loss": "torchvision.ops.sigmoid_focal_loss",
    "contrib.group_norm": "torch.nn.GroupNorm",
    "contrib.groupbn": "apex.parallel.SyncBatchNorm",
    "contrib.index_mul_2d": "indexing and multiplication",
    "contrib.layer_norm": "apex.normalization.FusedLayerNorm",
    "contrib.multihead_attn": "torch.nn.MultiheadAttention",
    "contrib.optimizers": "apex.optimizers",
    "contrib.sparsity": "torch.nn.utils.prune",
    "contrib.transducer": "torchaudio.transforms.RNNTLoss",
    "fused_dense": "torch.nn.Linear",
    "pyprof": "torch.profiler",
    "reparameterization": "torch.nn.utils.parametrizations.weight_norm",
    "transformer": "torch.distributed.tensor.parallel",
}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        name = fullname.removeprefix("apex.")
        if name != fullname and name in _USE:
            raise ImportError(f"{fullname} is not offered for npu: use {_USE[name]}", name=fullname)


def install() -> None:
    sys.meta_path.insert(0, _Finder())
