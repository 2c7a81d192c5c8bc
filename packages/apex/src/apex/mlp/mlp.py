"""MLP: linear layers, each followed by its activation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}


class MLP(torch.nn.Module):
    """MLP([64, 32, 8]) maps 64 features to 32 and those to 8. activation: "relu", "sigmoid" or "none"."""

    def __init__(self, mlp_sizes: Sequence[int], bias: bool = True, activation: str = "relu") -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise TypeError(f"activation must be 'relu', 'sigmoid' or 'none', not {activation!r}")
        self.mlp_sizes, self.bias, self.activation = list(mlp_sizes), bool(bias), activation
        self.num_layers = len(self.mlp_sizes) - 1
        for index in range(self.num_layers):
            weight = torch.empty(self.mlp_sizes[index + 1], self.mlp_sizes[index])
            setattr(self, f"weight_{index}", torch.nn.Parameter(weight))
            if bias:
                setattr(self, f"bias_{index}", torch.nn.Parameter(torch.empty(self.mlp_sizes[index + 1])))
        self.reset_parameters()

    @property
    def weights(self) -> list[torch.Tensor]:
        return [getattr(self, f"weight_{index}") for index in range(self.num_layers)]

    @property
    def biases(self) -> list[torch.Tensor]:
        return [getattr(self, f"bias_{index}") for index in range(self.num_layers)] if self.bias else []

    def reset_parameters(self) -> None:
        for weight in self.weights:
            torch.nn.init.normal_(weight, 0.0, math.sqrt(2.0 / sum(weight.shape)))
        for bias in self.biases:
            torch.nn.init.normal_(bias, 0.0, math.sqrt(1.0 / bias.shape[0]))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        biases = self.biases or [None] * self.num_layers
        for weight, bias in zip(self.weights, biases, strict=True):
            input = _ACTIVATIONS[self.activation](functional.linear(input, weight, bias))
        return input

    def extra_repr(self) -> str:
        return f"MLP sizes: {self.mlp_sizes}, Bias={self.bias}, activation={self.activation}"
