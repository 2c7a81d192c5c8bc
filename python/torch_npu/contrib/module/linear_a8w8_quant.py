"""A linear layer of integers, by its old name."""

from .linear_quant import LinearQuant


class LinearA8W8Quant(LinearQuant):
    """LinearQuant."""

    def __init__(
        self,
        in_features,
        out_features,
        *,
        bias=True,
        offset=False,
        pertoken_scale=False,
        device=None,
        dtype=None,
        output_dtype=None,
    ):
        super().__init__(
            in_features,
            out_features,
            bias=bias,
            offset=offset,
            pertoken_scale=pertoken_scale,
            device=device,
            dtype=dtype,
            output_dtype=output_dtype,
        )

    def forward(self, linear_quant_input):
        return super().forward(linear_quant_input)
