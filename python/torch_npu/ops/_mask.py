"""The keys that are hidden from a query by atten_mask and sparse_mode, for all layouts.

| sparse_mode | query i of a sequence sees key j if |
|---|---|
| 0 | atten_mask[i, j] is False, and i - pre_tokens <= j <= i + next_tokens |
| 1, 5 | atten_mask[i, j] is False |
| 2 | j <= i |
| 3 | j <= i + d, where d is the number of keys of the sequence minus the number of its queries |
| 4 | i + d - pre_tokens <= j <= i + d + next_tokens |
| 6 | j <= i + d, or j < prefix of the sequence |

For 2, 3, 4 and 6 atten_mask is the compressed mask [2048, 2048], whose elements are not read. Without atten_mask nothing is
hidden in any mode. Keys beyond the actual length of a sequence are always hidden.
"""

import functools

import torch

from ._define import check

EVERYTHING = 2147483647


class Mask:
    """The mask of an attention. The caller has checked that the operator offers the mode."""

    def __init__(self, operator, mask, mode, before, after, prefix=None):
        check(0 <= mode <= 6, operator, f"sparse_mode is 0 to 6, not {mode}")
        check(mode != 6 or mask is None or prefix is not None, operator, "sparse_mode 6 needs prefix")
        self.operator, self.mask, self.mode, self.prefix = operator, mask, mode, prefix
        self.before, self.after = (max(-EVERYTHING, min(n, EVERYTHING)) for n in (before, after))

    def __call__(self, q, k, sequence=None, lengths=(None, None)):
        """A bool tensor, True for hidden keys, that broadcasts to [batch, heads, queries, keys] of q and k in BNSD. None if
        nothing is hidden.

        `sequence`: the index of q and k in the batch if they are a single sequence of it. `lengths`: the actual numbers of
        queries and of keys of each sequence, or None."""
        parts = []
        if lengths[1] is not None:
            parts.append(torch.arange(k.size(2), device=k.device) >= _column(lengths[1], k.device))
        if self.mask is not None:
            if self.mode in (0, 1, 5):
                longest = k.size(2) if lengths[1] is None else max(lengths[1], default=0)
                parts.append(self._given(q.size(2), k.size(2), sequence, longest))
            if self.mode in (2, 3, 6) or (self.mode in (0, 4) and min(self.before, self.after) < EVERYTHING):
                parts.append(self._outside(q, k, sequence, lengths))
        return functools.reduce(torch.logical_or, parts) if parts else None

    def _given(self, queries, keys, sequence, longest):
        """The part of atten_mask for these queries and keys. It may be larger, and must cover the longest sequence of keys."""
        hidden = self.mask.bool()
        if hidden.dim() == 3:
            hidden = hidden.unsqueeze(1)
        if sequence is not None and hidden.dim() == 4 and hidden.size(0) > 1:
            hidden = hidden[sequence : sequence + 1]
        rows, columns = hidden.shape[-2:]
        check(
            (rows == 1 or rows >= queries) and (columns == 1 or columns >= longest),
            self.operator,
            f"atten_mask must cover {queries} queries and {longest} keys, but it is {list(self.mask.shape)}",
        )
        hidden = hidden[..., :queries, :keys]
        if 1 < columns < keys:
            hidden = torch.nn.functional.pad(hidden, (0, keys - columns), value=True)
        return hidden

    def _outside(self, q, k, sequence, lengths):
        """Keys outside of the triangle or band of the mode."""
        column, row = torch.arange(k.size(2), device=q.device), torch.arange(q.size(2), device=q.device).unsqueeze(1)
        if self.mode in (3, 4, 6):
            queries, keys = (
                x.size(2) if each is None else _column(each, q.device) for x, each in zip((q, k), lengths, strict=True)
            )
            row = row + (keys - queries)
        if self.mode in (2, 3):
            return column > row
        if self.mode == 6:
            prefix = self.prefix if sequence is None else self.prefix[sequence : sequence + 1]
            return (column > row) & (column >= _column(prefix, column.device))
        return (column < row - self.before) | (column > row + self.after)


def _column(numbers, device):
    return on_device(numbers, device).view(-1, 1, 1, 1)


def on_device(numbers, device):
    """Copies numbers to the device. A graph capture refuses copies from the host, so there each number is written by a fill."""
    numbers = [int(n) for n in numbers]
    if numbers and device.type == "npu" and torch.npu.is_current_stream_capturing():
        return torch.cat([torch.full((1,), n, device=device) for n in numbers])
    return torch.tensor(numbers, dtype=torch.int64, device=device)
