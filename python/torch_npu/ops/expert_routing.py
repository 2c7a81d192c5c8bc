"""Sends tokens to the ranks of their experts (dispatch), and returns the results (combine).

`group_ep` is a name that get_hccl_comm_name() has returned. With n experts per rank, rank r has the experts r * n to r * n + n -
1. The calls wait for the device, because the host needs the numbers of tokens.

Not offered: ranks of shared experts, tensor parallel groups (tp_world_size 2), elastic groups, constant experts.
"""

import itertools

import torch

from .._api_status import not_offered
from ._communication import Exchange, blocks_in_order, exchange_equal, group_of, refuse_options, select_rows
from ._define import PUBLIC, check, op, refuse
from .norm import npu_add_rms_norm

_INFO = 128  # numbers per token of assist_info_for_combine


class _Routes:
    """The rows that this rank sends and receives.

    order: the numbers token * k + i of the sent pairs (token, i), sorted by experts.
    sent[r][i]: number of rows for expert i of rank r. received[r][i]: number of rows from rank r for this rank's expert i."""

    def __init__(self, name, expert_ids, mask, group, world, rank, experts, special):
        check(
            experts > 0 and experts % world == 0,
            name,
            f"{world} ranks cannot have equal parts of {experts} experts; change moe_expert_num",
        )
        check(0 <= rank < world, name, f"ep_rank_id must be from 0 to {world - 1}, not {rank}")
        check(rank == group.rank(), name, f"ep_rank_id is {rank}, but this rank has the number {group.rank()} in the group")
        check(expert_ids.dim() == 2, name, f"expert_ids must be [tokens, k], not {list(expert_ids.shape)}")
        ids = expert_ids.flatten().long()
        wrong = ids.numel() > 0 and bool(((ids < 0) | (ids >= experts + special)).any())
        check(not wrong, name, f"expert_ids must be from 0 to {experts + special - 1}")
        used = ids < experts
        if mask is not None:
            fits = mask.shape in (expert_ids.shape, expert_ids.shape[:1])
            check(fits, name, f"x_active_mask must be [tokens] or [tokens, k], not {list(mask.shape)}")
            mask = mask.bool() if mask.dim() == 2 else mask.bool().unsqueeze(1)
            mask = mask.expand(expert_ids.shape).flatten()
            used = used & mask
        self.k, self.local, self.world, self.mask = expert_ids.size(1), experts // world, world, mask
        self.ids = torch.where(used, ids, experts)
        numbers = torch.bincount(self.ids, minlength=experts + 1)[:experts]
        self.sent = numbers.reshape(world, self.local).tolist()
        self.order = self.ids.argsort(stable=True)[: sum(map(sum, self.sent))]
        received = exchange_equal(numbers.reshape(world, self.local).contiguous(), group)
        self.received = received.tolist()

    def lines(self):
        return [sum(line) for line in self.sent], [sum(line) for line in self.received]


def _check_parallel(name, tp_world_size, shared_expert_rank_num):
    check(tp_world_size in (0, 1), name, f"tp_world_size must be 0 or 1, not {tp_world_size}; gather the tokens after the call")
    check(shared_expert_rank_num == 0, name, f"shared_expert_rank_num must be 0, not {shared_expert_rank_num}")


def _check_scales(name, scales, ids):
    check(ids.dim() == 2, name, f"expert_ids must be [tokens, k], not {list(ids.shape)}")
    fits = scales.shape == ids.shape
    check(fits, name, f"expert_scales must have the shape of expert_ids, {list(ids.shape)}, not {list(scales.shape)}")


def _quantised(rows, scales, experts):
    """The rows as int8, and a float32 scale for each row."""
    rows = rows.float()
    if scales is not None:
        rows = rows * scales.float()[experts]
    scale = rows.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / 127
    return (rows / scale.unsqueeze(1)).round().to(torch.int8), scale


def _padded(x, rows):
    return torch.cat((x, x.new_zeros(rows - x.size(0), *x.shape[1:])))


def _dispatch(
    name,
    x,
    expert_ids,
    group_ep,
    ep_world_size,
    ep_rank_id,
    moe_expert_num,
    *,
    scales=None,
    x_active_mask=None,
    expert_scales=None,
    group_tp="",
    tp_world_size=0,
    tp_rank_id=0,
    expert_shard_type=0,
    shared_expert_num=1,
    shared_expert_rank_num=0,
    quant_mode=0,
    global_bs=0,
    expert_token_nums_type=1,
    special=0,
):
    """The results by name. x: tokens; source: rank, token and k of each token; numbers: tokens per expert; blocks: ends of the
    blocks of tokens; all: the number of tokens."""
    group = group_of(name, group_ep, ep_world_size)
    _check_parallel(name, tp_world_size, shared_expert_rank_num)
    check(quant_mode in (0, 2), name, f"quant_mode must be 0 (none) or 2 (per token), not {quant_mode}")
    check(expert_token_nums_type in (0, 1), name, f"expert_token_nums_type must be 0 or 1, not {expert_token_nums_type}")
    fits = x.dim() == 2 and x.size(0) == expert_ids.size(0)
    check(fits, name, f"x {list(x.shape)} and expert_ids {list(expert_ids.shape)} must have the same number of tokens")
    check(quant_mode == 2 or scales is None, name, "scales need quant_mode 2")
    if expert_scales is not None:
        _check_scales(name, expert_scales, expert_ids)
    if scales is not None:
        wanted = [moe_expert_num, x.size(1)]
        check(list(scales.shape) == wanted, name, f"scales must be {wanted}, not {list(scales.shape)}")
    routes = _Routes(name, expert_ids, x_active_mask, group, ep_world_size, ep_rank_id, moe_expert_num, special)
    room = (global_bs or x.size(0) * ep_world_size) * min(routes.local, routes.k)
    total = sum(map(sum, routes.received))
    check(
        total <= room, name, f"{total} tokens arrive, but there is room for {room}; global_bs must be the largest batch * ranks"
    )
    lines, by_expert = routes.lines(), blocks_in_order(routes.received, True)

    def exchanged(rows):
        return _padded(select_rows(Exchange.apply(rows, group, *lines), by_expert), room)

    rows, found = x[routes.order // routes.k], x.new_empty(0, dtype=torch.float32)
    if quant_mode == 2:
        rows, scale = _quantised(rows, scales, routes.ids[routes.order])
        found = exchanged(scale)
    pairs = torch.stack((torch.full_like(routes.order, ep_rank_id), routes.order // routes.k, routes.order % routes.k), 1)
    weights = x.new_empty(0, dtype=torch.float32)
    if expert_scales is not None:
        weights = exchanged(expert_scales.flatten()[routes.order].float())
    numbers = torch.tensor([sum(column) for column in zip(*routes.received, strict=True)], device=x.device)
    blocks = torch.tensor(routes.received, device=x.device, dtype=torch.int32).T.flatten()
    return {
        "x": exchanged(rows),
        "scales": found,
        "routes": routes,
        "source": exchanged(pairs.to(torch.int32)),
        "numbers": numbers if expert_token_nums_type == 1 else numbers.cumsum(0),
        "blocks": blocks.cumsum(0).to(torch.int32),
        "all": torch.tensor([total], device=x.device, dtype=torch.int32),
        "weights": weights,
    }


@op(
    "npu_moe_distribute_dispatch(Tensor x, Tensor expert_ids, str group_ep, int ep_world_size, int ep_rank_id, int "
    "moe_expert_num, *, Tensor? scales=None, Tensor? x_active_mask=None, Tensor? expert_scales=None, str group_tp='', "
    "int tp_world_size=0, int tp_rank_id=0, int expert_shard_type=0, int shared_expert_num=1, int "
    "shared_expert_rank_num=0, int quant_mode=0, int global_bs=0, int expert_token_nums_type=1) -> (Tensor, Tensor, "
    "Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def npu_moe_distribute_dispatch(x, expert_ids, group_ep, ep_world_size, ep_rank_id, moe_expert_num, **options):
    """(tokens, scales, idx, numbers, ep_recv_counts, tp_recv_counts, weights). tokens are the tokens for this rank's experts,
    sorted by experts and then by ranks, with zeros after them. With quant_mode 2 they are int8 with a scale per token. numbers
    has the tokens per expert, or their running sums if expert_token_nums_type is 0. idx has, for each token and k, the number of
    earlier rows of this rank for the same expert."""
    name = "npu_moe_distribute_dispatch"
    found = _dispatch(name, x, expert_ids, group_ep, ep_world_size, ep_rank_id, moe_expert_num, **options)
    order = found["routes"].order
    sizes = [size for line in found["routes"].sent for size in line]
    position = torch.tensor([i for size in sizes for i in range(size)], device=x.device, dtype=torch.int32)
    idx = torch.zeros(expert_ids.numel(), device=x.device, dtype=torch.int32).index_copy(0, order, position)
    return found["x"], found["scales"], idx, found["numbers"], found["blocks"], found["all"], found["weights"]


@op(
    "npu_moe_distribute_dispatch_v2(Tensor x, Tensor expert_ids, str group_ep, int ep_world_size, int ep_rank_id, int "
    "moe_expert_num, *, Tensor? scales=None, Tensor? x_active_mask=None, Tensor? expert_scales=None, Tensor? "
    "elastic_info=None, Tensor? performance_info=None, str group_tp='', int tp_world_size=0, int tp_rank_id=0, int "
    "expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int quant_mode=0, int global_bs=0, int "
    "expert_token_nums_type=1, str comm_alg='', int zero_expert_num=0, int copy_expert_num=0, int const_expert_num=0, "
    "int? y_dtype=None, int? x_dtype=None, int? scales_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
    "Tensor)",
)
def npu_moe_distribute_dispatch_v2(
    x,
    expert_ids,
    group_ep,
    ep_world_size,
    ep_rank_id,
    moe_expert_num,
    *,
    elastic_info=None,
    performance_info=None,
    comm_alg="",
    zero_expert_num=0,
    copy_expert_num=0,
    const_expert_num=0,
    y_dtype=None,
    x_dtype=None,
    scales_dtype=None,
    **options,
):
    """npu_moe_distribute_dispatch with another third result: 128 numbers for each received token, of which the first three are
    its rank, token and k. The numbers of zero and copy experts follow those of the other experts. Tokens of these experts are not
    sent."""
    name = "npu_moe_distribute_dispatch_v2"
    refuse(name, elastic_info=elastic_info, performance_info=performance_info, const_expert_num=const_expert_num or None)
    refuse(name, y_dtype=y_dtype, x_dtype=x_dtype, scales_dtype=scales_dtype)
    options["special"] = zero_expert_num + copy_expert_num
    found = _dispatch(name, x, expert_ids, group_ep, ep_world_size, ep_rank_id, moe_expert_num, **options)
    info = torch.nn.functional.pad(found["source"], (0, _INFO - 3)).flatten()
    return found["x"], found["scales"], info, found["numbers"], found["blocks"], found["all"], found["weights"]


def _combine(
    name,
    expand_x,
    expert_ids,
    ep_send_counts,
    expert_scales,
    group_ep,
    ep_world_size,
    ep_rank_id,
    moe_expert_num,
    *,
    tp_send_counts=None,
    x_active_mask=None,
    expand_scales=None,
    shared_expert_x=None,
    ori_x=None,
    group_tp="",
    tp_world_size=0,
    tp_rank_id=0,
    expert_shard_type=0,
    shared_expert_num=1,
    shared_expert_rank_num=0,
    global_bs=0,
    comm_alg="",
    zero_expert_num=0,
    copy_expert_num=0,
    **rest,
):
    """[tokens, h]: the sum over k of the returned rows times expert_scales, plus shared_expert_x."""
    group = group_of(name, group_ep, ep_world_size)
    _check_parallel(name, tp_world_size, shared_expert_rank_num)
    refuse_options(name, rest)
    check(expand_x.dim() == 2, name, f"expand_x must be [rows, h], not {list(expand_x.shape)}")
    _check_scales(name, expert_scales, expert_ids)
    for what, rows in (("shared_expert_x", shared_expert_x), ("ori_x", ori_x)):
        wanted = [expert_ids.size(0), expand_x.size(1)]
        fits = rows is None or [rows.shape[:-1].numel(), *rows.shape[-1:]] == wanted
        check(fits, name, f"{what} must be {wanted}, not {None if rows is None else list(rows.shape)}")
    check(copy_expert_num == 0 or ori_x is not None, name, "copy experts need ori_x")
    special = zero_expert_num + copy_expert_num
    routes = _Routes(name, expert_ids, x_active_mask, group, ep_world_size, ep_rank_id, moe_expert_num, special)
    ends = ep_send_counts.flatten().tolist()[:moe_expert_num]
    blocks = [end - start for start, end in itertools.pairwise([0, *ends])]
    expected = [number for column in zip(*routes.received, strict=True) for number in column]
    same = "the results of a dispatch with the same expert_ids and x_active_mask on every rank"
    check(blocks == expected, name, f"ep_send_counts do not match the tokens that the ranks expect; pass {same}")
    total = sum(expected)
    check(total <= expand_x.size(0), name, f"expand_x has {expand_x.size(0)} rows, but {total} rows must be sent back")
    rows = select_rows(expand_x[:total], blocks_in_order(routes.received, False))
    sent, received = routes.lines()
    back = Exchange.apply(rows, group, received, sent)
    weights = expert_scales.float().flatten()
    parts = back.float() * weights[routes.order].unsqueeze(1)
    tokens = expert_ids.size(0)
    y = torch.zeros(tokens * routes.k, expand_x.size(1), device=back.device).index_copy(0, routes.order, parts)
    y = y.unflatten(0, (tokens, routes.k)).sum(1)
    if copy_expert_num:
        ids = expert_ids.long()
        copied = (ids >= moe_expert_num + zero_expert_num) & (ids < moe_expert_num + special)
        copied = copied if routes.mask is None else copied & routes.mask.view_as(copied)
        y = y + (weights.view_as(copied) * copied).sum(1, keepdim=True) * ori_x.float().reshape(y.shape)
    if shared_expert_x is not None:
        y = y + shared_expert_x.float().reshape(y.shape)
    return y.to(expand_x.dtype)


@op(
    "npu_moe_distribute_combine(Tensor expand_x, Tensor expert_ids, Tensor expand_idx, Tensor ep_send_counts, Tensor "
    "expert_scales, str group_ep, int ep_world_size, int ep_rank_id, int moe_expert_num, *, Tensor? tp_send_counts=None, "
    "Tensor? x_active_mask=None, Tensor? activation_scale=None, Tensor? weight_scale=None, Tensor? group_list=None, "
    "Tensor? expand_scales=None, Tensor? shared_expert_x=None, str group_tp='', int tp_world_size=0, int tp_rank_id=0, "
    "int expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int global_bs=0, int out_dtype=0, "
    "int comm_quant_mode=0, int group_list_type=0) -> Tensor",
)
def npu_moe_distribute_combine(
    expand_x,
    expert_ids,
    expand_idx,
    ep_send_counts,
    expert_scales,
    group_ep,
    ep_world_size,
    ep_rank_id,
    moe_expert_num,
    **options,
):
    """[tokens, h]: for each token of this rank, the sum of its experts' rows of expand_x times expert_scales, plus
    shared_expert_x. expand_idx and ep_send_counts are results of npu_moe_distribute_dispatch."""
    name = "npu_moe_distribute_combine"
    common = (group_ep, ep_world_size, ep_rank_id, moe_expert_num)
    return _combine(name, expand_x, expert_ids, ep_send_counts, expert_scales, *common, **options)


@op(
    "npu_moe_distribute_combine_v2(Tensor expand_x, Tensor expert_ids, Tensor assist_info_for_combine, Tensor "
    "ep_send_counts, Tensor expert_scales, str group_ep, int ep_world_size, int ep_rank_id, int moe_expert_num, *, "
    "Tensor? tp_send_counts=None, Tensor? x_active_mask=None, Tensor? expand_scales=None, Tensor? shared_expert_x=None, "
    "Tensor? elastic_info=None, Tensor? ori_x=None, Tensor? const_expert_alpha_1=None, Tensor? "
    "const_expert_alpha_2=None, Tensor? const_expert_v=None, Tensor? performance_info=None, str group_tp='', int "
    "tp_world_size=0, int tp_rank_id=0, int expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, "
    "int global_bs=0, int comm_quant_mode=0, str comm_alg='', int zero_expert_num=0, int copy_expert_num=0, int "
    "const_expert_num=0) -> Tensor",
)
def npu_moe_distribute_combine_v2(
    expand_x,
    expert_ids,
    assist_info_for_combine,
    ep_send_counts,
    expert_scales,
    group_ep,
    ep_world_size,
    ep_rank_id,
    moe_expert_num,
    **options,
):
    """npu_moe_distribute_combine for npu_moe_distribute_dispatch_v2. Copy experts return ori_x, and zero experts zeros."""
    name = "npu_moe_distribute_combine_v2"
    common = (group_ep, ep_world_size, ep_rank_id, moe_expert_num)
    return _combine(name, expand_x, expert_ids, ep_send_counts, expert_scales, *common, **options)


@op(
    "npu_moe_distribute_combine_add_rms_norm(Tensor expand_x, Tensor expert_ids, Tensor expand_idx, Tensor "
    "ep_send_counts, Tensor expert_scales, Tensor residual_x, Tensor gamma, str group_ep, int ep_world_size, int "
    "ep_rank_id, int moe_expert_num, *, Tensor? tp_send_counts=None, Tensor? x_active_mask=None, Tensor? "
    "activation_scale=None, Tensor? weight_scale=None, Tensor? group_list=None, Tensor? expand_scales=None, Tensor? "
    "shared_expert_x=None, Tensor? elastic_info=None, Tensor? ori_x=None, Tensor? const_expert_alpha_1=None, Tensor? "
    "const_expert_alpha_2=None, Tensor? const_expert_v=None, str group_tp='', int tp_world_size=0, int tp_rank_id=0, int "
    "expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int global_bs=0, int out_dtype=0, int "
    "comm_quant_mode=0, int group_list_type=0, str comm_alg='', float norm_eps=1e-06, int zero_expert_num=0, int "
    "copy_expert_num=0, int const_expert_num=0) -> (Tensor, Tensor, Tensor)",
)
def npu_moe_distribute_combine_add_rms_norm(
    expand_x,
    expert_ids,
    expand_idx,
    ep_send_counts,
    expert_scales,
    residual_x,
    gamma,
    group_ep,
    ep_world_size,
    ep_rank_id,
    moe_expert_num,
    *,
    norm_eps=1e-6,
    **options,
):
    """(y, rstd, x): npu_add_rms_norm of residual_x and npu_moe_distribute_combine_v2."""
    name = "npu_moe_distribute_combine_add_rms_norm"
    common = (group_ep, ep_world_size, ep_rank_id, moe_expert_num)
    x = _combine(name, expand_x, expert_ids, ep_send_counts, expert_scales, *common, **options)
    check(
        x.numel() == residual_x.numel(),
        name,
        f"residual_x must have {x.numel()} elements, not the shape {list(residual_x.shape)}",
    )
    return npu_add_rms_norm(x.view_as(residual_x), residual_x, gamma, norm_eps)


_WINDOWS = "tokens are not written to windows in the memory of other ranks; use npu_moe_distribute_dispatch and ..._combine"
_PHASES = "tokens are not sent in two phases; use npu_moe_distribute_dispatch_v2 and npu_moe_distribute_combine_v2"


def _later(schema, does, reason=_WINDOWS):
    name = schema[: schema.index("(")]

    def kernel(*_, **__):
        raise NotImplementedError(f"torch_npu.{name} is not offered: {reason}")

    kernel.__doc__ = does
    op(schema)(kernel)
    PUBLIC[name] = not_offered(reason)(PUBLIC[name])


_later(
    "npu_attention_to_ffn(Tensor x, Tensor session_id, Tensor micro_batch_id, Tensor layer_id, Tensor expert_ids, Tensor "
    "expert_rank_table, str group, int world_size, int[] ffn_token_info_table_shape, int[] ffn_token_data_shape, int[] "
    "attn_token_info_table_shape, int moe_expert_num, *, Tensor? scales=None, Tensor? active_mask=None, int "
    "quant_mode=0, int sync_flag=0, int ffn_start_rank_id=0) -> ()",
    "Sends tokens from the devices of the attention to the devices of the experts.",
)
_later(
    "npu_ffn_to_attention(Tensor x, Tensor session_ids, Tensor micro_batch_ids, Tensor token_ids, Tensor expert_offsets, "
    "Tensor actual_token_num, str group, int world_size, int[] token_info_table_shape, int[] token_data_shape, *, "
    "Tensor? attn_rank_table=None) -> ()",
    "Sends tokens from the devices of the experts to the devices of the attention.",
)
_COMMON = "str group_ep, int ep_world_size, int ep_rank_id, int moe_expert_num, *, "
_SHARED = "int expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, "
_later(
    f"npu_moe_distribute_dispatch_setup(Tensor x, Tensor expert_ids, {_COMMON}Tensor? scales=None, Tensor? x_active_mask=None, "
    f"{_SHARED}int quant_mode=0, int global_bs=0, int comm_type=0, str comm_alg='', int? y_dtype=None) -> "
    "(Tensor, Tensor, Tensor)",
    "The first phase of npu_moe_distribute_dispatch.",
    _PHASES,
)
_later(
    f"npu_moe_distribute_dispatch_teardown(Tensor x, Tensor y, Tensor expert_ids, Tensor comm_cmd_info, {_COMMON}{_SHARED}int "
    "quant_mode=0, int global_bs=0, int expert_token_nums_type=1, int comm_type=0, str comm_alg='') -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    "The second phase of npu_moe_distribute_dispatch.",
    _PHASES,
)
_later(
    f"npu_moe_distribute_combine_setup(Tensor expand_x, Tensor expert_ids, Tensor assist_info_for_combine, {_COMMON}{_SHARED}int "
    "global_bs=0, int comm_quant_mode=0, int comm_type=0, str comm_alg='') -> (Tensor, Tensor)",
    "The first phase of npu_moe_distribute_combine.",
    _PHASES,
)
_later(
    "npu_moe_distribute_combine_teardown(Tensor expand_x, Tensor quant_expand_x, Tensor expert_ids, Tensor expand_idx, Tensor "
    f"expert_scales, Tensor comm_cmd_info, {_COMMON}Tensor? x_active_mask=None, Tensor? shared_expert_x=None, {_SHARED}int "
    "global_bs=0, int comm_quant_mode=0, int comm_type=0, str comm_alg='') -> Tensor",
    "The second phase of npu_moe_distribute_combine.",
    _PHASES,
)
