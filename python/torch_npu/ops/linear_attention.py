"""Attention in linear time: the gated delta rule, and the causal convolutions in front of it."""

import itertools

import torch

from ._define import check, op, precise, precisely

_DELTA = (
    " *, Tensor? beta=None, float? scale=None, Tensor? actual_seq_lengths=None, Tensor? ssm_state_indices=None,"
    " Tensor? num_accepted_tokens=None, Tensor? g=None, Tensor? gk=None) -> "
)


@op(f"npu_recurrent_gated_delta_rule(Tensor query, Tensor key, Tensor value, Tensor(a!) state,{_DELTA}Tensor")
@precisely
def npu_recurrent_gated_delta_rule(
    query,
    key,
    value,
    state,
    *,
    beta=None,
    scale=None,
    actual_seq_lengths=None,
    ssm_state_indices=None,
    num_accepted_tokens=None,
    g=None,
    gk=None,
):
    """out [T, Nv, Dv] of query and key [T, Nk, Dk] and value [T, Nv, Dv], token by token:

    S = exp(g) exp(gk) S, S = S + beta (value - S key) key^T, out = scale S query. scale is 1 / sqrt(Dk) unless given, beta 1.
    actual_seq_lengths are the numbers of tokens of the sequences (one by default); they are read back, which waits for the
    device. state [blocks, Nv, Dv, Dk] holds an S at ssm_state_indices of each token (by default its number). A sequence starts
    from the S of its first token, or of its last accepted one, and writes the S of every token."""
    name = "npu_recurrent_gated_delta_rule"
    tokens, heads = value.shape[:2]
    check(state.dim() == 4, name, f"state is [blocks, heads, Dv, Dk], not {list(state.shape)}")
    q, k = _of_heads(query, key, heads, name)
    q = q * (scale if scale is not None else query.size(-1) ** -0.5)
    lengths = [1] * tokens if actual_seq_lengths is None else actual_seq_lengths.tolist()
    check(sum(lengths) <= tokens, name, f"actual_seq_lengths add up to {sum(lengths)}, but there are {tokens} tokens")
    slots = torch.arange(tokens, device=value.device) if ssm_state_indices is None else ssm_state_indices.long()
    out = torch.zeros_like(precise(value))
    start = 0
    for i, length in enumerate(lengths):
        if length == 0:
            continue
        accepted = 0 if num_accepted_tokens is None else num_accepted_tokens[i].long() - 1
        first = precise(state[slots[start + accepted]])
        own = slice(start, start + length)
        optional = (None if x is None else precise(x[own]) for x in (beta, g, gk))
        out[own], states = _delta(first, q[own], k[own], precise(value[own]), *optional)
        state[slots[own]] = states.to(state.dtype)
        start += length
    return out.to(value.dtype)


@op(f"npu_recurrent_gated_delta_rule_functional(Tensor query, Tensor key, Tensor value, Tensor state,{_DELTA}(Tensor, Tensor)")
def npu_recurrent_gated_delta_rule_functional(query, key, value, state, **options):
    """(out, state): npu_recurrent_gated_delta_rule on a copy of the state."""
    state = state.clone()
    return npu_recurrent_gated_delta_rule(query, key, value, state, **options), state


@op(
    "npu_chunk_gated_delta_rule(Tensor query, Tensor key, Tensor value, *, Tensor? beta=None, Tensor? initial_state=None,"
    " Tensor? actual_seq_lengths=None, float? scale=None, Tensor? g=None) -> (Tensor, Tensor)"
)
@precisely
def npu_chunk_gated_delta_rule(query, key, value, *, beta=None, initial_state=None, actual_seq_lengths=None, scale=None, g=None):
    """(out, final_state): the rule of npu_recurrent_gated_delta_rule over whole sequences, from initial_state [B, Nv, Dv, Dk],
    zeros unless given. One sequence unless actual_seq_lengths are given. scale is 1 unless given."""
    name = "npu_chunk_gated_delta_rule"
    tokens, heads, width = value.shape
    q, k = _of_heads(query, key, heads, name)
    q = q * (1.0 if scale is None else scale)
    lengths = [tokens] if actual_seq_lengths is None else actual_seq_lengths.tolist()
    check(sum(lengths) == tokens, name, f"actual_seq_lengths add up to {sum(lengths)}, but there are {tokens} tokens")
    if initial_state is None:
        initial_state = value.new_zeros(len(lengths), heads, width, key.size(-1))
    shape = (len(lengths), heads, width, key.size(-1))
    check(tuple(initial_state.shape) == shape, name, f"initial_state is {list(shape)}, not {list(initial_state.shape)}")
    outs, finals, start = [], [], 0
    for i, length in enumerate(lengths):
        own = slice(start, start + length)
        optional = (None if x is None else precise(x[own]) for x in (beta, g))
        out, states = _delta(precise(initial_state[i]), q[own], k[own], precise(value[own]), *optional, None)
        outs.append(out)
        finals.append(states[-1] if length else precise(initial_state[i]))
        start += length
    return torch.cat(outs).to(value.dtype), torch.stack(finals).to(initial_state.dtype)


@op("npu_masked_causal_conv1d(Tensor input, Tensor weight, *, Tensor? mask=None) -> Tensor")
@precisely
def npu_masked_causal_conv1d(input, weight, *, mask=None):
    """[S, B, H]: the sum over k of weight[k] input[s - (W - 1 - k)], channel by channel, with zeros in front; zero where mask
    [B, S] is False."""
    name = "npu_masked_causal_conv1d"
    fits = input.dim() == 3 and weight.dim() == 2 and weight.size(1) == input.size(2)
    check(fits, name, f"input is [S, B, H] and weight [W, H], not {list(input.shape)} and {list(weight.shape)}")
    out = _convolved(torch.nn.functional.pad(precise(input), (0, 0, 0, 0, weight.size(0) - 1, 0)), weight)
    if mask is not None:
        check(mask.shape == input.shape[1::-1], name, f"mask is {list(input.shape[1::-1])}, not {list(mask.shape)}")
        out = torch.where(mask.bool().t().unsqueeze(-1), out, 0)
    return out.to(input.dtype)


@op(
    "npu_fused_causal_conv1d(Tensor x, Tensor weight, Tensor(a!) conv_states, *, Tensor? query_start_loc=None,"
    " Tensor? cache_indices=None, Tensor? initial_state_mode=None, Tensor? bias=None, Tensor? num_accepted_tokens=None,"
    ' str? activation="None", int? pad_slot_id=-1, int? run_mode=0, int? residual_connection=0, int? max_query_len=-1,'
    " Tensor? num_computed_tokens=None, Tensor? block_idx_first_scheduled_token=None,"
    " Tensor? block_idx_last_scheduled_token=None, Tensor? initial_state_idx=None, int? block_size=128,"
    ' str? conv_mode="default") -> Tensor'
)
@precisely
def npu_fused_causal_conv1d(
    x,
    weight,
    conv_states,
    *,
    query_start_loc=None,
    cache_indices=None,
    initial_state_mode=None,
    bias=None,
    num_accepted_tokens=None,
    activation="None",
    pad_slot_id=-1,
    run_mode=0,
    residual_connection=0,
    max_query_len=-1,
    num_computed_tokens=None,
    block_idx_first_scheduled_token=None,
    block_idx_last_scheduled_token=None,
    initial_state_idx=None,
    block_size=128,
    conv_mode="default",
):
    """The causal convolution of sequences with their preceding tokens, which conv_states [slots, C, dim] keep.

    x is [T, dim] with the bounds query_start_loc [B + 1] of the sequences, or [B, S, dim]; weight is [K, dim]. The slot of
    sequence b is cache_indices[b], or b; a sequence with pad_slot_id is skipped and gives zeros. The last K - 1 tokens of the
    slot (or those before the end of num_accepted_tokens; zeros if num_computed_tokens is 0) precede the sequence, and the slot
    keeps the last C of all tokens. residual_connection 1 adds x. conv_mode pangu sets results with fewer than K - 1 computed
    tokens before them to zero. With cache_indices [B, blocks], num_computed_tokens, initial_state_idx and the first and last
    scheduled block, the state is read at initial_state_idx and written at the last block, and the blocks between them get the
    state at their ends. initial_state_mode, bias, activation, run_mode and max_query_len have no effect. Numbers are read back,
    which waits for the device."""
    name = "npu_fused_causal_conv1d"
    check(conv_mode in ("default", "pangu"), name, f"conv_mode is default or pangu, not {conv_mode}")
    check(x.dim() in (2, 3), name, f"x is [T, dim] or [B, S, dim], not {list(x.shape)}")
    check(x.dim() == 3 or query_start_loc is not None, name, "x [T, dim] needs query_start_loc")
    check(conv_mode == "default" or num_computed_tokens is not None, name, "conv_mode pangu needs num_computed_tokens")
    before = weight.size(0) - 1
    check(conv_states.size(1) >= before, name, f"conv_states keep {before} tokens or more, not {conv_states.size(1)}")
    paged = block_idx_last_scheduled_token is not None
    given = (cache_indices, num_computed_tokens, block_idx_first_scheduled_token, initial_state_idx)
    check(
        not paged or (all(each is not None for each in given) and cache_indices.dim() == 2),
        name,
        "block_idx_last_scheduled_token needs cache_indices [B, blocks], num_computed_tokens,"
        " block_idx_first_scheduled_token and initial_state_idx",
    )
    rows = x.flatten(0, -2)
    bounds = range(0, rows.size(0) + 1, x.size(1)) if query_start_loc is None else query_start_loc.tolist()
    numbers = lambda tensor: None if tensor is None else tensor.tolist()  # noqa: E731
    slots, accepted, computed = numbers(cache_indices), numbers(num_accepted_tokens), numbers(num_computed_tokens)
    firsts, lasts, initial = (
        numbers(t) for t in (block_idx_first_scheduled_token, block_idx_last_scheduled_token, initial_state_idx)
    )
    out = torch.zeros_like(rows)
    for i, (start, end) in enumerate(itertools.pairwise(bounds)):
        source = slots[i][initial[i]] if paged else slots[i] if slots else i
        target = slots[i][lasts[i]] if paged else source
        if source == pad_slot_id:
            continue
        own = rows[start:end]
        if computed and computed[i] == 0:
            skipped, kept = 0, own.new_zeros(before, own.size(1))
        else:
            skipped = accepted[i] - 1 if accepted else conv_states.size(1) - before
            kept = conv_states[source, : skipped + before].to(own.dtype)
        whole = torch.cat((kept, own))
        size = min(conv_states.size(1), whole.size(0))
        conv_states[target, conv_states.size(1) - size :] = whole[whole.size(0) - size :].to(conv_states.dtype)
        whole = whole[skipped:]
        if paged:
            rest = (end - start - (block_size - computed[i] % block_size)) % block_size
            full = end - start - (rest or block_size)
            for block in range(firsts[i], lasts[i]):
                edge = full - (lasts[i] - block - 1) * block_size
                check(edge > 0, name, f"block {block} of sequence {i} ends before the sequence begins")
                conv_states[slots[i][block], conv_states.size(1) - before :] = whole[edge : edge + before].to(conv_states.dtype)
        y = _convolved(precise(whole), weight)
        if conv_mode == "pangu":
            y[: min(max(before - computed[i], 0), end - start)] = 0
        out[start:end] = (y + own if residual_connection == 1 else y).to(out.dtype)
    return out.view_as(x)


def _convolved(padded, weight):
    """The sums over k of weight[k] padded[s + k]."""
    size = padded.size(0) - weight.size(0) + 1
    return sum(padded[k : k + size] * precise(weight[k]) for k in range(weight.size(0)))


def _of_heads(query, key, heads, name):
    check(heads % key.size(1) == 0, name, f"{key.size(1)} heads of key do not divide {heads} heads of value")
    return (precise(x).repeat_interleave(heads // key.size(1), 1) for x in (query, key))


def _delta(state, q, k, v, beta, g, gk):
    """(out [T, N, Dv], states [T, N, Dv, Dk])."""
    out, states = [], []
    for i in range(v.size(0)):
        if g is not None:
            state = state * g[i].exp()[:, None, None]
        if gk is not None:
            state = state * gk[i].exp()[:, None, :]
        error = v[i] - (state @ k[i].unsqueeze(-1)).squeeze(-1)
        if beta is not None:
            error = error * beta[i].unsqueeze(-1)
        state = state + error.unsqueeze(-1) * k[i].unsqueeze(-2)
        states.append(state)
        out.append((state @ q[i].unsqueeze(-1)).squeeze(-1))
    if not out:
        return torch.zeros_like(v), state[None][:0]
    return torch.stack(out), torch.stack(states)
