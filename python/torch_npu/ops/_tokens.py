"""Tokens of sequences and their visibility, for attention that selects its keys.

    q = read(query, "TND", ends)                      # [T, N, D], sequences concatenated
    k = read(pages, "PA_BSND", lengths, table, q)     # [pages, block, N, D]
    seen = visible(q, k, causal=True)                 # bool [B, queries, keys]

Nothing is read back from the device: the lengths of the sequences stay in tensors.
"""

import dataclasses

import torch

from ._define import check


@dataclasses.dataclass
class Tokens:
    """x is [B, S, N, D]. For each token [B, S]: its sequence, its place in the sequence, and the length of the sequence."""

    x: torch.Tensor
    sequence: torch.Tensor
    place: torch.Tensor
    length: torch.Tensor

    @property
    def counts(self):
        return self.place < self.length


def read(x, layout, lengths, operator, table=None, beside=None):
    """The tokens of a BSND, TND or paged (PA_BSND) tensor. lengths: a tensor or numbers with the length of each sequence, for TND
    its end. If `beside` is a TND tensor, pages are concatenated in one row, as its tokens are."""
    check(layout in ("BSND", "TND", "PA_BSND"), operator, f"the layout is BSND, TND or (of keys) PA_BSND, not {layout}")
    dims = 3 if layout == "TND" else 4
    check(x.dim() == dims, operator, f"the layout {layout} has {dims} dimensions, not {x.dim()} as {list(x.shape)}")
    check(lengths is not None or layout == "BSND", operator, f"the layout {layout} needs the lengths of the sequences")
    if lengths is not None:
        lengths = torch.as_tensor(lengths, device=x.device).long()
    if layout == "TND":
        return _packed(x, lengths)
    if layout == "PA_BSND":
        check(table is not None and table.dim() == 2, operator, "the layout PA_BSND needs block_table, [batch, blocks]")
        x = x[table.long().clamp(min=0)].flatten(1, 2)
    check(
        lengths is None or lengths.numel() == x.size(0),
        operator,
        f"{x.size(0)} sequences, but {0 if lengths is None else lengths.numel()} lengths",
    )
    batch, size = x.shape[:2]
    place = torch.arange(size, device=x.device).expand(batch, size)
    length = torch.full_like(place, size) if lengths is None else lengths.view(-1, 1).expand(batch, size)
    if beside is not None and beside.dim() == 3:
        sequence = torch.arange(batch, device=x.device).view(-1, 1).expand(batch, size)
        return Tokens(x.flatten(0, 1)[None], *(each.reshape(1, -1) for each in (sequence, place, length)))
    return Tokens(x, torch.zeros_like(place), place, length)


def _packed(x, ends):
    token = torch.arange(x.size(0), device=x.device)
    sequence = (token.unsqueeze(1) >= ends).sum(1).clamp(max=ends.numel() - 1)
    starts = torch.cat((ends.new_zeros(1), ends[:-1]))
    return Tokens(x[None], sequence[None], (token - starts[sequence])[None], (ends - starts)[sequence][None])


def visible(q, k, causal):
    """bool [B, queries, keys]: True if query and key are valid tokens of the same sequence. causal: the last query sees all keys,
    each earlier query one key less."""
    seen = (q.sequence.unsqueeze(2) == k.sequence.unsqueeze(1)) & q.counts.unsqueeze(2) & k.counts.unsqueeze(1)
    if causal:
        seen = seen & ((k.place - k.length).unsqueeze(1) <= (q.place - q.length).unsqueeze(2))
    return seen


def modes(sparse_mode, pre_tokens, next_tokens, operator):
    """Whether the mode is causal: 0 hides nothing, 3 is causal, aligned at the last query and key. Bands are not offered."""
    check(sparse_mode in (0, 3), operator, f"sparse_mode is 0 (everything) or 3 (causal), not {sparse_mode}")
    everything = 2**63 - 1
    check(pre_tokens == next_tokens == everything, operator, f"pre_tokens and next_tokens are {everything}, as by default")
    return sparse_mode == 3
