"""Names of operators and arguments that mean the same in dumps of different devices and versions. docs/accuracy.md shows them."""

from __future__ import annotations

import re

# Name of an operator or node on some device -> the common name. Names of nodes have no number at the end.
SAME_OPERATOR = {
    "NpuConvolutionBackward": "ConvolutionBackward",
    "CudnnConvolutionBackward": "ConvolutionBackward",
    "ThnnConvDepthwise2DBackward": "ConvolutionBackward",
    "ConvolutionOverrideableBackward": "ConvolutionBackward",
    "CudnnBatchNormBackward": "NativeBatchNormBackward",
    "convolution_overrideable": "convolution",
    "_convolution": "convolution",
    "cudnn_convolution": "convolution",
    "mkldnn_convolution": "convolution",
    "thnn_conv2d": "convolution",
    "convolution_backward_overrideable": "convolution_backward",
    "cudnn_batch_norm": "native_batch_norm",
    "cudnn_batch_norm_backward": "native_batch_norm_backward",
    "_native_batch_norm_legit": "native_batch_norm",
}
SAME_ARGUMENT = {"epsilon": "eps", "self": "input"}
IGNORED_ARGUMENTS = {"benchmark", "deterministic", "result3", "cudnn_enabled", "allow_tf32", "reserve"}


def canonical(name: str) -> str:
    """The common name. Drops the number of a node: AddmmBackward0 is AddmmBackward in old files."""
    base = name.rstrip("0123456789") if "Backward" in name else name
    return SAME_OPERATOR.get(base, base)


def canonical_argument(name: str) -> str:
    return SAME_ARGUMENT.get(name, name)


_RANDOM = (
    r"(alpha_|feature_|feature_alpha_|native_)?dropout|bernoulli|binomial|cauchy|exponential|geometric|log_normal|multinomial|normal"
    r"|poisson|rand(int|n)?(_like)?|random|randperm|rrelu|uniform|NativeDropoutBackward|RreluWithNoiseBackward"
)


def is_random(name: str) -> bool:
    """Whether an operator draws random numbers, or is the node of such an operator."""
    return re.fullmatch(_RANDOM, canonical(name).removesuffix("_")) is not None
