"""Mixtures of experts: selects experts, and permutes tokens to them and back. Indices are int32."""

import torch

from ._define import check, op, refuse


@op(
    "npu_moe_compute_expert_tokens(Tensor sorted_expert_for_source_row, int num_expert) -> Tensor",
    called=lambda sorted_experts, num_experts=1: ...,
)
def npu_moe_compute_expert_tokens(sorted_expert_for_source_row, num_expert):
    """[num_expert]: the number of sorted expert numbers that are at most 0, 1, 2 ..."""
    check(sorted_expert_for_source_row.dim() == 1, "npu_moe_compute_expert_tokens", "expert numbers have one dimension")
    experts = torch.arange(num_expert, device=sorted_expert_for_source_row.device, dtype=sorted_expert_for_source_row.dtype)
    return (sorted_expert_for_source_row <= experts.unsqueeze(1)).sum(1).to(torch.int32)


@op("npu_moe_gating_top_k_softmax(Tensor x, Tensor? finished=None, int k=1) -> (Tensor, Tensor, Tensor)")
def npu_moe_gating_top_k_softmax(x, finished=None, k=1):
    """(y, expert, row): the k highest of the softmax of x, their experts (of finished rows: the number of experts), and row
    numbers that count down the columns."""
    return _gate(x, finished, k, "npu_moe_gating_top_k_softmax")


@op(
    "npu_moe_gating_top_k_softmax_v2(Tensor x, *, int k=1, Tensor? finished=None, int? renorm=0, bool? output_softmax=False)"
    " -> (Tensor, Tensor, Tensor)"
)
def npu_moe_gating_top_k_softmax_v2(x, *, k=1, finished=None, renorm=0, output_softmax=False):
    """(y, expert, softmax): npu_moe_gating_top_k_softmax; renorm 1 makes the softmax of the k highest of x. The softmax, in
    float32, is empty unless output_softmax, which renorm 0 needs."""
    y, expert, _ = _gate(x, finished, k, "npu_moe_gating_top_k_softmax_v2", renorm == 1)
    softmax = x.float().softmax(-1) if output_softmax and renorm == 0 else x.new_empty(0, dtype=torch.float32)
    return y, expert, softmax


@op(
    "npu_moe_gating_top_k(Tensor x, int k, *, Tensor? bias=None, Tensor? input_ids=None, Tensor? tid2eid=None, int k_group=1,"
    " int group_count=1, int group_select_mode=0, int renorm=0, int norm_type=0, bool out_flag=False,"
    " float routed_scaling_factor=1.0, float eps=1e-20) -> (Tensor, Tensor, Tensor)"
)
def npu_moe_gating_top_k(
    x,
    k,
    *,
    bias=None,
    input_ids=None,
    tid2eid=None,
    k_group=1,
    group_count=1,
    group_select_mode=0,
    renorm=0,
    norm_type=0,
    out_flag=False,
    routed_scaling_factor=1.0,
    eps=1e-20,
):
    """(y, expert, norm): the softmax (norm_type 0) or sigmoid (1) of x chooses, with bias added, k experts out of the k_group
    best of group_count groups (by their highest, or with group_select_mode 1 by their two highest). y is what was chosen
    without the bias, for the sigmoid over its sum, times routed_scaling_factor. norm, in float32, is empty unless out_flag."""
    name = "npu_moe_gating_top_k"
    refuse(name, input_ids=input_ids, tid2eid=tid2eid)
    check(norm_type in (0, 1), name, f"norm_type is 0 (softmax) or 1 (sigmoid), not {norm_type}")
    check(renorm == 0, name, f"renorm is 0, not {renorm}")
    check(x.size(-1) % group_count == 0, name, f"{group_count} groups do not divide {x.size(-1)} experts")
    check(k <= x.size(-1) // group_count * k_group, name, f"{k_group} groups of {x.size(-1) // group_count} experts have no {k}")
    norm = x.float().softmax(-1) if norm_type == 0 else x.float().sigmoid()
    choice = norm if bias is None else norm + bias.float()
    if group_count > 1:
        groups = choice.unflatten(-1, (group_count, -1))
        score = groups.amax(-1) if group_select_mode == 0 else groups.topk(2, -1).values.sum(-1)
        best = score.argsort(dim=-1, descending=True, stable=True)[:, :k_group]
        outside = torch.ones_like(score, dtype=torch.bool).scatter(-1, best, False)
        choice = groups.masked_fill(outside.unsqueeze(-1), float("-inf")).flatten(-2)
    expert = choice.argsort(dim=-1, descending=True, stable=True)[:, :k]
    y = norm.gather(-1, expert)
    if norm_type == 1:
        y = y / (y.sum(-1, keepdim=True) + eps)
    y = (y * routed_scaling_factor).to(x.dtype)
    return y, expert.to(torch.int32), norm if out_flag else norm.new_empty(0)


@op(
    "npu_moe_gating_top_k_backward(Tensor x_norm, Tensor grad_y, Tensor expertIdx, *, int renorm=0, int norm_type=0,"
    " float routed_scaling_factor=1.0, float eps=1e-20) -> Tensor"
)
def npu_moe_gating_top_k_backward(x_norm, grad_y, expertIdx, *, renorm=0, norm_type=0, routed_scaling_factor=1.0, eps=1e-20):
    """The gradient of npu_moe_gating_top_k by x, given its results norm and expert, and the gradient of its y."""
    name = "npu_moe_gating_top_k_backward"
    check(norm_type in (0, 1), name, f"norm_type is 0 (softmax) or 1 (sigmoid), not {norm_type}")
    check(renorm == 0, name, f"renorm is 0, not {renorm}")
    check(grad_y.shape == expertIdx.shape, name, f"grad_y {list(grad_y.shape)} is not like expertIdx {list(expertIdx.shape)}")
    norm, grad, expert = x_norm.float(), grad_y.float() * routed_scaling_factor, expertIdx.long()
    if norm_type == 1:
        kept = norm.gather(-1, expert)
        total = kept.sum(-1, keepdim=True) + eps
        grad = (grad - (grad * kept).sum(-1, keepdim=True) / total) / total
    grad = torch.zeros_like(norm).scatter_add(-1, expert, grad)
    inner = norm * (1 - norm) * grad if norm_type == 1 else norm * (grad - (norm * grad).sum(-1, keepdim=True))
    return inner.to(grad_y.dtype)


@op(
    "npu_moe_update_expert(Tensor expert_ids, Tensor eplb_table, *, Tensor? expert_scales=None, Tensor? pruning_threshold=None,"
    " Tensor? active_mask=None, int local_rank_id=-1, int world_size=-1, int balance_mode=0) -> (Tensor, Tensor)"
)
def npu_moe_update_expert(
    expert_ids,
    eplb_table,
    *,
    expert_scales=None,
    pruning_threshold=None,
    active_mask=None,
    local_rank_id=-1,
    world_size=-1,
    balance_mode=0,
):
    """(ids, mask) of expert_ids [n, k]: the place of each expert. Its row of eplb_table has the number of places, then the
    places. One is selected by local_rank_id, with world_size divided among them (balance_mode 0), or by the token's number (1).
    The mask is False for tokens that active_mask [n] hides, and for experts whose expert_scales are less than pruning_threshold
    [k] times the sum of the token's."""
    name = "npu_moe_update_expert"
    check(expert_ids.dim() == 2, name, f"expert_ids are [tokens, k], not {list(expert_ids.shape)}")
    check(eplb_table.dim() == 2, name, f"eplb_table is [experts, 1 + places], not {list(eplb_table.shape)}")
    check(balance_mode in (0, 1), name, f"balance_mode is 0 (by rank) or 1 (by token), not {balance_mode}")
    check((expert_scales is None) == (pruning_threshold is None), name, "expert_scales and pruning_threshold come together")
    rows = eplb_table[expert_ids.long()]
    count = rows[..., 0]
    if balance_mode == 0:
        fits = 0 <= local_rank_id < world_size
        check(fits, name, f"balance_mode 0 needs local_rank_id below world_size, not {local_rank_id} and {world_size}")
        place = local_rank_id // ((world_size + count - 1) // count)
    else:
        place = torch.arange(expert_ids.size(0), device=expert_ids.device).unsqueeze(1) % count
    ids = rows.gather(-1, place.long().unsqueeze(-1) + 1).squeeze(-1).to(expert_ids.dtype)
    mask = torch.ones_like(ids, dtype=torch.bool)
    if expert_scales is not None:
        scales = expert_scales.float()
        mask = ~(scales < pruning_threshold.reshape(1, -1) * scales.sum(-1, keepdim=True))
    return ids, mask if active_mask is None else mask & active_mask.bool().unsqueeze(1)


@op(
    "npu_moe_re_routing(Tensor tokens, Tensor expert_token_num_per_rank, *, Tensor? per_token_scales=None,"
    " int expert_token_num_type=1, int idx_type=0, int? tokens_dtype=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_moe_re_routing(
    tokens, expert_token_num_per_rank, *, per_token_scales=None, expert_token_num_type=1, idx_type=0, tokens_dtype=None
):
    """(tokens, scales, index, count): reorders tokens from rank-major to expert-major order, with their scales (zeros if not
    given). expert_token_num_per_rank [ranks, experts] has the numbers of tokens. index, int32, has the old positions; count has
    the tokens per expert."""
    name = "npu_moe_re_routing"
    refuse(name, tokens_dtype=tokens_dtype)
    check(expert_token_num_type == 1, name, f"expert_token_num_type is 1 (counts), not {expert_token_num_type}")
    check(idx_type == 0, name, f"idx_type is 0 (where a token was), not {idx_type}")
    counts = expert_token_num_per_rank
    check(counts.dim() == 2, name, f"expert_token_num_per_rank is [ranks, experts], not {list(counts.shape)}")
    ends = counts.flatten().long().cumsum(0)
    part = (torch.arange(tokens.size(0), device=tokens.device).unsqueeze(1) >= ends).sum(1)
    order = (part % counts.size(1)).argsort(stable=True)
    scales = tokens.new_zeros(tokens.size(0), dtype=torch.float32) if per_token_scales is None else per_token_scales[order]
    return tokens[order], scales, order.to(torch.int32), counts.sum(0).to(counts.dtype)


@op("npu_moe_init_routing(Tensor x, Tensor row_idx, Tensor expert_idx, int active_num) -> (Tensor, Tensor, Tensor)")
def npu_moe_init_routing(x, row_idx, expert_idx, active_num):
    """(rows, place, experts): the rows of x once per selected expert, in the order of experts, the first min(active_num, rows) *
    k of them; the new position of each row number in row_idx; and the sorted experts."""
    name = "npu_moe_init_routing"
    check(
        row_idx.shape == expert_idx.shape, name, f"row_idx {list(row_idx.shape)} is not like expert_idx {list(expert_idx.shape)}"
    )
    rows, k = expert_idx.shape
    experts, order = expert_idx.flatten().sort(stable=True)
    source = row_idx.flatten().long()[order]
    place = _inverse(source)
    return x[source[: min(active_num, rows) * k] % rows], place.to(torch.int32), experts


@op(
    "npu_moe_init_routing_v2(Tensor x, Tensor expert_idx, *, Tensor? scale=None, Tensor? offset=None, int active_num=-1,"
    " int expert_capacity=-1, int expert_num=-1, int drop_pad_mode=0, int expert_tokens_num_type=0,"
    " bool expert_tokens_num_flag=False, int quant_mode=-1, int[2] active_expert_range=[], int row_idx_type=0,"
    " int? x_dtype=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_moe_init_routing_v2(
    x,
    expert_idx,
    *,
    scale=None,
    offset=None,
    active_num=-1,
    expert_capacity=-1,
    expert_num=-1,
    drop_pad_mode=0,
    expert_tokens_num_type=0,
    expert_tokens_num_flag=False,
    quant_mode=-1,
    active_expert_range=(),
    row_idx_type=0,
    x_dtype=None,
):
    """(rows, place, tokens, scale): the rows of x once per selected expert, in the order of experts, the first active_num of them
    if that is above 0; the new position of copy i of all rows [n * k] (row_idx_type 0), or the copy at position i (1); and,
    int64, with expert_tokens_num_flag, the tokens per expert (expert_tokens_num_type 1), their running sum (0), or (expert,
    count) pairs (2). Nothing is quantised: the scales are zeros."""
    name = "npu_moe_init_routing_v2"
    refuse(name, scale=scale, offset=offset, x_dtype=x_dtype)
    check(quant_mode == -1, name, f"quant_mode is -1, not {quant_mode}; quantise the rows with torch_npu.npu_dynamic_quant")
    check(drop_pad_mode == 0, name, f"drop_pad_mode is 0, not {drop_pad_mode}")
    check(expert_num > 0, name, f"expert_num is the number of experts, not {expert_num}")
    whole = not active_expert_range or list(active_expert_range) == [0, expert_num]
    check(whole, name, f"active_expert_range is [0, {expert_num}], not {list(active_expert_range)}")
    k = expert_idx.size(1)
    flat = expert_idx.flatten()
    kept = flat.numel() if active_num <= 0 else min(active_num, flat.numel())
    order = flat.argsort(stable=True)
    place = order if row_idx_type == 1 else _inverse(order)
    count = (flat.unsqueeze(1) == torch.arange(expert_num, device=x.device, dtype=flat.dtype)).sum(0)
    if not expert_tokens_num_flag:
        tokens = count.new_empty(0)
    elif expert_tokens_num_type == 2:
        tokens = torch.stack((torch.arange(expert_num, device=x.device), count), 1)
    else:
        tokens = count if expert_tokens_num_type == 1 else count.cumsum(0)
    return x[order[:kept] // k], place.to(torch.int32), tokens, x.new_zeros(kept, dtype=torch.float32)


@op(
    "npu_moe_finalize_routing(Tensor expanded_permuted_rows, Tensor? skip1, Tensor? skip2, Tensor? bias, Tensor? scales,"
    " Tensor expanded_src_to_dst_row, Tensor? export_for_source_row, int? drop_pad_mode=0, int? k=1) -> Tensor",
    called=lambda expanded_permuted_rows, skip1, skip2, bias, scales, expanded_src_to_dst_row, export_for_source_row,
    drop_pad_mode=0: ...,
)  # fmt: skip
def npu_moe_finalize_routing(
    expanded_permuted_rows,
    skip1,
    skip2,
    bias,
    scales,
    expanded_src_to_dst_row,
    export_for_source_row,
    drop_pad_mode=0,
    k=1,
):
    """[rows, H]: skip1 + skip2 + the sum over the k experts of a row of scales (what the expert made of it + bias of the expert).
    expanded_src_to_dst_row has the position of that result, ordered by copy, then row (drop_pad_mode 0, 1), or by row, then copy
    (2, 3); -1 is a dropped row."""
    name = "npu_moe_finalize_routing"
    check(drop_pad_mode in (0, 1, 2, 3), name, f"drop_pad_mode is 0 to 3, not {drop_pad_mode}")
    k = scales.size(1) if scales is not None else k
    made = expanded_permuted_rows.flatten(0, -2)
    total = expanded_src_to_dst_row.numel()
    check(total % k == 0, name, f"{total} copies are not {k} per row")
    where = expanded_src_to_dst_row.long()
    where = where.view(k, -1).t() if drop_pad_mode in (0, 1) else where.view(-1, k)
    rows = torch.where((where < 0).unsqueeze(-1), 0, made[where.clamp(min=0)])
    if bias is not None:
        check(export_for_source_row is not None, name, "bias needs export_for_source_row, the experts of each row")
        rows = rows + bias[export_for_source_row.view(-1, k).long()]
    if scales is not None:
        rows = rows * scales.unsqueeze(-1)
    out = rows.sum(1)
    for skip in (skip1, skip2):
        out = out if skip is None else out + skip
    return out.to(expanded_permuted_rows.dtype)


@op("npu_moe_token_permute(Tensor tokens, Tensor indices, int? num_out_tokens=None, bool padded_mode=False) -> (Tensor, Tensor)")
def npu_moe_token_permute(tokens, indices, num_out_tokens=None, padded_mode=False):
    """(rows, place): the tokens once per expert of indices [n] or [n, k], in the order of experts, and the new position of copy i
    of [n * k]. num_out_tokens, if not 0, is the number of rows that are kept."""
    name = "npu_moe_token_permute"
    check(not padded_mode, name, "padded_mode is not offered; use tokens[indices.flatten()]")
    check(
        indices.dim() in (1, 2) and indices.size(0) == tokens.size(0),
        name,
        f"indices are [{tokens.size(0)}, k], not {list(indices.shape)}",
    )
    k = indices.size(1) if indices.dim() == 2 else 1
    order = indices.flatten().argsort(stable=True)
    place = _inverse(order)
    if num_out_tokens:
        order = order[:num_out_tokens]
    return tokens[order // k], place.to(torch.int32)


@op(
    "npu_moe_token_unpermute(Tensor permuted_tokens, Tensor sorted_indices, Tensor? probs=None, bool padded_mode=False,"
    " int[]? restore_shape=None) -> Tensor"
)
def npu_moe_token_unpermute(permuted_tokens, sorted_indices, probs=None, padded_mode=False, restore_shape=None):
    """[n, H]: the inverse of npu_moe_token_permute (sorted_indices are its positions), times probs [n, k] and summed over k.
    Dropped rows count as zeros."""
    name = "npu_moe_token_unpermute"
    check(not padded_mode, name, "padded_mode is not offered; use torch.index_add")
    k = 1 if probs is None else probs.size(1)
    where = sorted_indices.long()
    kept = where < permuted_tokens.size(0)
    rows = torch.where(kept.unsqueeze(-1), permuted_tokens[where.clamp(max=permuted_tokens.size(0) - 1)], 0).unflatten(0, (-1, k))
    return (rows if probs is None else rows * probs.unsqueeze(-1)).sum(1).to(permuted_tokens.dtype)


@op(
    "npu_moe_token_permute_with_routing_map(Tensor tokens, Tensor routing_map, *, Tensor? probs=None, int? num_out_tokens=None,"
    " bool drop_and_pad=False) -> (Tensor, Tensor, Tensor)"
)
def npu_moe_token_permute_with_routing_map(tokens, routing_map, *, probs=None, num_out_tokens=None, drop_and_pad=False):
    """(rows, probs, index): the tokens [n, H] that routing_map [n, experts] selects, ordered by expert, num_out_tokens in all (n
    by default), with their probs [n, experts], which are empty if not given. index is the new position of copy i of the tokens.
    With drop_and_pad each expert gets its first num_out_tokens / experts tokens, and index is the token at each position."""
    name = "npu_moe_token_permute_with_routing_map"
    count, experts = routing_map.shape
    check(tokens.size(0) == count, name, f"routing_map is [{tokens.size(0)}, experts], not {list(routing_map.shape)}")
    check(count > 0 and experts > 0, name, f"routing_map is [tokens, experts] with at least one of each, not {[count, experts]}")
    total = count if num_out_tokens is None else num_out_tokens
    sent = routing_map.t().to(torch.int8)
    if drop_and_pad:
        token = sent.argsort(dim=-1, descending=True, stable=True)[:, : total // experts].flatten()
        expert = torch.arange(experts, device=tokens.device).repeat_interleave(total // experts)
        index = token
    else:
        total = total // count * count
        place = sent.flatten().argsort(dim=0, descending=True, stable=True)[:total]
        expert, token = place // count, place % count
        index = token.argsort(dim=0, stable=True)
    kept = tokens.new_empty(0) if probs is None else probs[token, expert]
    return tokens[token], kept, index.to(torch.int32)


@op(
    "npu_moe_token_unpermute_with_routing_map(Tensor permuted_tokens, Tensor sorted_indices, int[] restore_shape, *,"
    " Tensor? probs=None, Tensor? routing_map=None, bool drop_and_pad=False) -> Tensor"
)
def npu_moe_token_unpermute_with_routing_map(
    permuted_tokens, sorted_indices, restore_shape, *, probs=None, routing_map=None, drop_and_pad=False
):
    """[n, H], restore_shape: the inverse of npu_moe_token_permute_with_routing_map, times probs [n, experts], summed per
    token."""
    name = "npu_moe_token_unpermute_with_routing_map"
    check(restore_shape[0] > 0, name, f"restore_shape is [tokens, H] with at least one token, not {list(restore_shape)}")
    where = sorted_indices.long()
    if drop_and_pad:
        if probs is not None:
            expert = torch.arange(probs.size(1), device=where.device).repeat_interleave(where.numel() // probs.size(1))
            permuted_tokens = permuted_tokens * probs[where, expert].unsqueeze(-1)
        out = permuted_tokens.new_zeros(restore_shape).index_add(0, where, permuted_tokens)
        return out.to(permuted_tokens.dtype)
    check(
        where.numel() % restore_shape[0] == 0, name, f"{where.numel()} rows are not the same number for {restore_shape[0]} tokens"
    )
    rows = permuted_tokens[where].unflatten(0, (restore_shape[0], -1))
    if probs is not None:
        check(routing_map is not None, name, "probs need routing_map")
        chosen = routing_map.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, : rows.size(1)]
        rows = rows * probs.gather(-1, chosen).unsqueeze(-1)
    return rows.sum(1).to(permuted_tokens.dtype)


def _inverse(order):
    return torch.empty_like(order).scatter(0, order, torch.arange(order.numel(), device=order.device))


def _gate(x, finished, k, name, renorm=False):
    check(x.dim() >= 2, name, f"x is [..., experts], of two or more dimensions, not {list(x.shape)}")
    check(0 < k <= x.size(-1), name, f"k is 1 to {x.size(-1)}, the number of experts, not {k}")
    softmax = x.float().softmax(-1)
    expert = softmax.argsort(dim=-1, descending=True, stable=True)[..., :k]
    y = x.float().gather(-1, expert).softmax(-1) if renorm else softmax.gather(-1, expert)
    if finished is not None:
        expert = torch.where(finished.bool().unsqueeze(-1), x.size(-1), expert)
    count = y.numel() // k
    row = torch.arange(count * k, device=x.device, dtype=torch.int32).view(k, count).t().reshape(y.shape)
    return y.to(x.dtype), expert.to(torch.int32), row
