"""The multi-head attention of fairseq for flattened batches."""

import math
from typing import Any

import torch
from torch import nn

import torch_npu

from ..function import matmul_transpose
from .ensemble_dropout import NpuCachedDropout


def Matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """tensor1 @ tensor2.transpose(-2, -1)."""
    return matmul_transpose(tensor1, tensor2)


class MultiheadAttention(nn.Module):
    """Attention by torch_npu.npu_multi_head_attention: query is [bsz * tgt_len, embed_dim], key and value [bsz * s_len, ...].

        y, _ = MultiheadAttention(64, 4)(q, k, v, bsz, tgt_len, s_len)

    Masks are added to the scores. The attention weights are not returned."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        q_noise: float = 0.0,
        qn_block_size: int = 8,
    ) -> None:
        super().__init__()
        _refuse(add_bias_kv=add_bias_kv, add_zero_attn=add_zero_attn, q_noise=q_noise)
        if embed_dim % num_heads:
            raise ValueError(f"{num_heads} heads do not divide embed_dim {embed_dim}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.qkv_same_dim = self.kdim == self.vdim == embed_dim
        if self_attention and not self.qkv_same_dim:
            raise ValueError(f"self_attention needs kdim and vdim {embed_dim}, not {self.kdim} and {self.vdim}")
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        self.scaling, self.dropout_prob = self.head_dim**-0.5, dropout
        self.dropout_module = NpuCachedDropout(dropout, module_name=type(self).__name__)
        self.k_proj = nn.Linear(self.kdim, embed_dim, bias)
        self.v_proj = nn.Linear(self.vdim, embed_dim, bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.onnx_trace = self.tpu = False
        self.reset_parameters()

    def prepare_for_onnx_export_(self) -> None:
        """Remembers it."""
        self.onnx_trace = True

    def prepare_for_tpu_(self, **kwargs: Any) -> None:
        """Remembers it."""
        self.tpu = True

    def reset_parameters(self) -> None:
        """Initialises the weights by xavier_uniform_."""
        gain = 1 / math.sqrt(2) if self.qkv_same_dim else 1
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def transpose_for_scores(self, x: torch.Tensor) -> torch.Tensor:
        """Reshapes [batch, length, embed_dim] to [batch, heads, length, width]."""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bsz: int,
        tgt_len: int,
        s_len: int,
        key_padding_mask: torch.Tensor | None = None,
        incremental_state: Any = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: torch.Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[torch.Tensor, None]:
        """(y [bsz * tgt_len, embed_dim], None)."""
        _refuse(
            incremental_state=incremental_state,
            static_kv=static_kv,
            before_softmax=before_softmax,
            need_head_weights=need_head_weights,
        )
        mask = key_padding_mask
        if attn_mask is not None:
            mask = attn_mask if mask is None else mask + attn_mask
        return self.multi_attn(query, key, value, mask, bsz, tgt_len), None

    def multi_attn(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None,
        bsz: int,
        tgt_len: int,
    ) -> torch.Tensor:
        """y, with a mask that is added to the scores [bsz, heads, tgt_len, length of the keys]."""
        src_len = key.size(0) // bsz
        mask = query.new_zeros(()) if key_padding_mask is None else key_padding_mask
        dropout_mask = self.dropout_module([(bsz, self.num_heads, tgt_len, src_len), query.dtype, query.device])
        return torch_npu.npu_multi_head_attention(
            query, key, value, self.q_proj.weight, self.k_proj.weight, self.v_proj.weight, mask, self.out_proj.weight,
            self.q_proj.bias, self.k_proj.bias, self.v_proj.bias, self.out_proj.bias, dropout_mask, self.num_heads, self.head_dim,
            src_len, tgt_len, self.dropout_prob if self.training else 0.0, True,
        )[0]  # fmt: skip

    def apply_sparse_mask(self, attn_weights: torch.Tensor, tgt_len: int, src_len: int, bsz: int) -> torch.Tensor:
        """Returns attn_weights unchanged."""
        return attn_weights

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Splits in_proj_weight and in_proj_bias of old checkpoints into those of the three projections."""
        prefix = f"{name}." if name else ""
        for kind in ("weight", "bias"):
            joined = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if joined is not None:
                for projection, part in zip("qkv", torch.chunk(joined, 3), strict=True):
                    state_dict[f"{prefix}{projection}_proj.{kind}"] = part


def _refuse(**arguments: Any) -> None:
    given = [name for name, value in arguments.items() if value]
    if given:
        raise NotImplementedError(f"MultiheadAttention does not offer {', '.join(given)}; torch.nn.MultiheadAttention may")
