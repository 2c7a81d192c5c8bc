"""Modules for detection, language and quantised networks."""

from torch.nn import BatchNorm1d as FastBatchNorm1d
from torch.nn import BatchNorm2d as FastBatchNorm2d
from torch.nn import BatchNorm3d as FastBatchNorm3d
from torch.nn import SyncBatchNorm as FastSyncBatchNorm

from .activations import Mish, SiLU, Swish
from .bidirectional_lstm import BiLSTM
from .channel_shuffle import ChannelShuffle
from .crossentropy import LabelSmoothingCrossEntropy
from .deform_conv import DCNv2, ModulatedDeformConv
from .drop_path import NpuDropPath
from .dropout import DropoutV2
from .ensemble_dropout import NpuCachedDropout, NpuFairseqDropout, NpuPreGenDropout
from .focus import Focus
from .linear_a8w8_quant import LinearA8W8Quant
from .linear_quant import LinearQuant
from .linear_weight_quant import LinearWeightQuant
from .multihead_attention import MultiheadAttention
from .npu_modules import DropoutWithByteMask
from .prefetcher import Prefetcher
from .preloader import PreLoader
from .ps_roi_pooling import PSROIPool
from .quant_conv2d import QuantConv2d
from .roi_align import ROIAlign

__all__ = [
    "BiLSTM",
    "ChannelShuffle",
    "DCNv2",
    "DropoutV2",
    "DropoutWithByteMask",
    "FastBatchNorm1d",
    "FastBatchNorm2d",
    "FastBatchNorm3d",
    "FastSyncBatchNorm",
    "Focus",
    "LabelSmoothingCrossEntropy",
    "LinearA8W8Quant",
    "LinearQuant",
    "LinearWeightQuant",
    "Mish",
    "ModulatedDeformConv",
    "MultiheadAttention",
    "NpuCachedDropout",
    "NpuDropPath",
    "NpuFairseqDropout",
    "NpuPreGenDropout",
    "PSROIPool",
    "PreLoader",
    "Prefetcher",
    "QuantConv2d",
    "ROIAlign",
    "SiLU",
    "Swish",
]
