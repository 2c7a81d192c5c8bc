"""The affinity library under the names of the documents and of the older package.

from torch.contrib.npu.optimized_lib import ChannelShuffle, PreLoader, fast_rcnn_inference_single_image, pairwise_iou
from torch.contrib.npu.optimized_lib import function, module     # torch_npu.contrib.function and .module
"""

from .. import function, module
from ..function import (
    fast_rcnn_inference_single_image,
    npu_batched_multiclass_nms,
    npu_bbox_coder_decode_xywh2xyxy,
    npu_bbox_coder_encode_xyxy2xywh,
    npu_bbox_coder_encode_yolo,
    npu_fast_condition_index_put,
    npu_giou,
    npu_iou,
    npu_multiclass_nms,
    npu_ptiou,
    npu_single_level_responsible_flags,
    pairwise_iou,
)
from ..module import (
    BiLSTM,
    ChannelShuffle,
    DCNv2,
    DropoutV2,
    LabelSmoothingCrossEntropy,
    Mish,
    ModulatedDeformConv,
    Prefetcher,
    PreLoader,
    PSROIPool,
    ROIAlign,
    SiLU,
    Swish,
)

__all__ = [
    "BiLSTM",
    "ChannelShuffle",
    "DCNv2",
    "DropoutV2",
    "LabelSmoothingCrossEntropy",
    "Mish",
    "ModulatedDeformConv",
    "PSROIPool",
    "PreLoader",
    "Prefetcher",
    "ROIAlign",
    "SiLU",
    "Swish",
    "fast_rcnn_inference_single_image",
    "function",
    "module",
    "npu_batched_multiclass_nms",
    "npu_bbox_coder_decode_xywh2xyxy",
    "npu_bbox_coder_encode_xyxy2xywh",
    "npu_bbox_coder_encode_yolo",
    "npu_fast_condition_index_put",
    "npu_giou",
    "npu_iou",
    "npu_multiclass_nms",
    "npu_ptiou",
    "npu_single_level_responsible_flags",
    "pairwise_iou",
]
