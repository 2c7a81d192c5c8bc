"""Functions of torch.nn.functional."""

import torch.nn.functional

MODULE = torch.nn.functional

# Run in float16.
FP16_FUNCS = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "linear",
]

# Run in float32.
FP32_FUNCS = [
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "gelu",
    "grid_sample",
    "group_norm",
    "hinge_embedding_loss",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "local_response_norm",
    "log_softmax",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "triplet_margin_loss",
]

# Refuse float16 arguments with this message.
BANNED_FUNCS = [
    (
        "binary_cross_entropy",
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss need float32 arguments, but O1 gave them float16: use "
        "torch.nn.BCEWithLogitsLoss without the sigmoid, or call amp.register_float_function(torch, 'sigmoid') before "
        "amp.initialize",
    ),
]
