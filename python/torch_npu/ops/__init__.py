"""The operators of the namespace npu: torch.ops.npu.NAME with their schemas, torch_npu.NAME as Python functions.

    y, rstd = torch_npu.npu_rms_norm(x, weight, epsilon=1e-6)
    y, rstd = torch.ops.npu.npu_rms_norm(x, weight, 1e-6)

Each operator is a composition of ATen operators, not a fused kernel. So it runs on the device of its tensors (npu, cpu or meta),
is differentiable where the formula is, and torch.compile traces through it.

A family (a module of this package) is imported when one of its names is first used. Unused families cost nothing.
"""

import importlib

import torch

FAMILIES = {
    "activation": "fast_gelu npu_fast_gelu npu_gelu npu_gelu_mul npu_geglu npu_swiglu npu_clipped_swiglu npu_mish npu_silu"
    " npu_silu_",
    "adam": "npu_apply_adam npu_bert_apply_adam",
    "attention": "npu_fusion_attention npu_fusion_attention_v2 npu_fusion_attention_v3 npu_fused_floyd_attention",
    "backward": "npu_rms_norm_backward npu_swiglu_backward npu_fast_gelu_backward npu_gelu_backward npu_geglu_grad"
    " npu_rotary_mul_backward npu_linear_backward npu_softmax_cross_entropy_with_logits_backward"
    " npu_scaled_masked_softmax_backward",
    "boxes": "npu_iou npu_ptiou npu_giou npu_diou npu_ciou npu_bounding_box_encode npu_bounding_box_decode npu_yolo_boxes_encode"
    " npu_anchor_response_flags npu_grid_assign_positive",
    "cache": "npu_scatter_pa_kv_cache npu_scatter_pa_kv_cache_functional npu_advance_step_flashattn npu_gather_pa_kv_cache"
    " npu_gather_pa_kv_cache_functional",
    "collective": "npu_mm_all_reduce_base npu_mm_reduce_scatter_base npu_quant_mm_reduce_scatter npu_all_gather_base_mm"
    " npu_all_gather_quant_mm npu_all_to_all_matmul npu_all_to_all_quant_matmul npu_matmul_all_to_all"
    " npu_quant_matmul_all_to_all _npu_distribute_barrier",
    "convolution": "npu_conv2d npu_conv3d npu_conv_transpose2d npu_convolution npu_convolution_transpose npu_deformable_conv2d"
    " npu_deformable_conv2dbk",
    "dropout": "_npu_dropout _dropout_with_byte_mask dropout_with_byte_mask npu_dropout_with_add_softmax npu_dropoutV2"
    " npu_dropout_gen_mask npu_dropout_do_mask",
    "encoder": "npu_fused_attention_score npu_fused_attention_score_fwd npu_fused_attention_layernorm_qkv_fwd"
    " npu_multi_head_attention",
    "expert_matmul": "npu_alltoallv_gmm npu_alltoallv_quant_gmm npu_gmm_alltoallv npu_quant_gmm_alltoallv",
    "expert_routing": "npu_moe_distribute_dispatch npu_moe_distribute_dispatch_v2 npu_moe_distribute_combine"
    " npu_moe_distribute_combine_v2 npu_moe_distribute_combine_add_rms_norm npu_attention_to_ffn npu_ffn_to_attention"
    " npu_moe_distribute_dispatch_setup npu_moe_distribute_dispatch_teardown npu_moe_distribute_combine_setup"
    " npu_moe_distribute_combine_teardown",
    "format": "npu_format_cast npu_format_cast_ _npu_format_cast get_npu_format empty_with_format unsafe_empty_with_format"
    " empty_with_swapped_memory get_storage_size copy_memory_ npu_change_data_ptr",
    "fused_quant": "npu_rms_norm_quant npu_add_rms_norm_quant npu_add_rms_norm_dynamic_quant npu_swiglu_quant"
    " npu_dequant_swiglu_quant",
    "grouped": "npu_grouped_matmul npu_ffn npu_grouped_matmul_finalize_routing npu_grouped_matmul_swiglu_quant"
    " npu_grouped_matmul_swiglu_quant_v2",
    "hyper": "npu_mhc_pre npu_mhc_post npu_mhc_post_backward npu_mhc_sinkhorn",
    "indexer": "npu_lightning_indexer npu_quant_lightning_indexer npu_dense_lightning_indexer_softmax_lse"
    " npu_dense_lightning_indexer_grad_kl_loss npu_sparse_lightning_indexer_grad_kl_loss npu_lightning_indexer_grad",
    "infer_attention": "npu_prompt_flash_attention npu_incre_flash_attention npu_fused_infer_attention_score"
    " npu_fused_infer_attention_score_v2",
    "linear": "npu_linear npu_bmmV2 npu_transpose_batchmatmul matmul_checksum npu_fused_matmul",
    "linear_attention": "npu_recurrent_gated_delta_rule npu_recurrent_gated_delta_rule_functional npu_chunk_gated_delta_rule"
    " npu_masked_causal_conv1d npu_fused_causal_conv1d",
    "loss": "npu_softmax_cross_entropy_with_logits npu_cross_entropy_loss npu_scaled_masked_softmax"
    " npu_masked_softmax_with_rel_pos_bias npu_fused_linear_online_max_sum npu_fused_cross_entropy_loss_with_max_sum"
    " npu_fused_linear_cross_entropy_loss_with_max_sum_backward",
    "mla": "npu_mla_prolog npu_mla_prolog_v2 npu_kv_rmsnorm_rope_cache npu_mla_prolog_v3 npu_mla_prolog_v3_functional",
    "moe": "npu_moe_compute_expert_tokens npu_moe_finalize_routing npu_moe_gating_top_k npu_moe_gating_top_k_softmax"
    " npu_moe_gating_top_k_softmax_v2 npu_moe_init_routing npu_moe_init_routing_v2 npu_moe_token_permute"
    " npu_moe_token_unpermute npu_moe_gating_top_k_backward npu_moe_update_expert npu_moe_re_routing"
    " npu_moe_token_permute_with_routing_map npu_moe_token_unpermute_with_routing_map",
    "nms": "npu_batch_nms npu_nms_v4 npu_nms_with_mask",
    "norm": "npu_rms_norm npu_gemma_rms_norm npu_add_rms_norm npu_add_rms_norm_cast npu_add_layer_norm npu_deep_norm"
    " npu_group_norm_silu npu_group_norm_swish npu_layer_norm_eval npu_add_rms_norm_v2 npu_add_rms_norm_v2_functional",
    "nsa": "npu_nsa_compress npu_nsa_compress_infer npu_nsa_compress_attention npu_nsa_select_attention",
    "quant": "npu_quantize npu_anti_quant npu_dynamic_quant npu_dynamic_quant_asymmetric npu_group_quant npu_trans_quant_param"
    " npu_convert_weight_to_int4pack npu_dtype_cast _npu_dtype_cast npu_dtype_cast_ npu_dynamic_block_quant npu_rotate_quant"
    " npu_quant_scatter npu_quant_scatter_",
    "quant_matmul": "npu_quant_matmul npu_weight_quant_batchmatmul npu_quant_conv2d npu_quant_matmul_gelu"
    " npu_quant_matmul_reduce_sum npu_transpose_quant_batchmatmul",
    "recurrent": "npu_lstm npu_lstm_cell npu_gru",
    "ring": "npu_fusion_attention_grad npu_ring_attention_update npu_attention_update",
    "roi": "npu_roi_align npu_roi_alignbk npu_ps_roi_pooling",
    "rope": "npu_rotary_mul npu_apply_rotary_pos_emb npu_interleave_rope npu_mrope",
    "rotated": "npu_rotated_iou npu_rotated_overlaps",
    "sampling": "npu_top_k_top_p npu_sim_exponential_ npu_random_choice_with_mask",
    "shape": "npu_confusion_transpose npu_transpose npu_slice npu_indexing npu_pad npu_reshape npu_broadcast npu_stride_add"
    " npu_one_hot npu_max npu_min npu_sort_v2 npu_scatter_nd_update npu_scatter_nd_update_ npu_scatter scatter_update"
    " scatter_update_ npu_sign_bits_pack npu_sign_bits_unpack npu_gather_sparse_index npu_prefetch one_",
    "sparse_attention": "npu_sparse_flash_attention npu_kv_quant_sparse_flash_attention npu_block_sparse_attention",
    "status": "npu_alloc_float_status npu_get_float_status npu_clear_float_status",
}
_ELSEWHERE = {"Format": "ops.format", "erase_stream": "ops.format", "HiFloat8Tensor": "_hifloat8"}
FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names.split()}


def load(name):
    """Imports the family of the operator. Returns whether there is an operator of that name."""
    family = FAMILY_OF.get(name)
    if family is not None:
        importlib.import_module(f"{__name__}.{family}")
    return family is not None


def public(name):
    """The value of torch_npu.NAME: an operator, the number of a data type, or a name of _ELSEWHERE. Raises AttributeError."""
    if load(name):
        return importlib.import_module(f"{__name__}._define").PUBLIC[name]
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"torch_npu.{_ELSEWHERE[name]}"), name)
    tokens = importlib.import_module(f"{__name__}.dtypes").TOKENS
    if name in tokens:
        return tokens[name]
    known = "; docs/npu_ops.md lists the operators that it has" if name.startswith("npu_") else ""
    raise AttributeError(f"module 'torch_npu' has no attribute {name!r}{known}")


class _Namespace(torch._ops._OpNamespace):
    """torch.ops.npu, which defines an operator at its first use."""

    def __getattr__(self, name):
        load(name)
        return super().__getattr__(name)

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(FAMILY_OF))


def register():
    torch.ops.npu = _Namespace("npu")
