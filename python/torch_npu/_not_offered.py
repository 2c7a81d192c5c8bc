"""Names that clients import together with much else, but that are not offered: a call says so, and what to use instead."""


def npu_fusion_attention(*_, **__):
    raise NotImplementedError(
        "torch_npu.npu_fusion_attention is not offered. Use torch.nn.functional.scaled_dot_product_attention, "
        'in transformers attn_implementation="sdpa".'
    )
