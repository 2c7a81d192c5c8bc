"""Rotary position embeddings."""

import torch

from ._define import check, op


@op(
    "npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor",
    called=lambda input, r1, r2, rotary_mode="half": ...,
)
def npu_rotary_mul(self, r1, r2, rotary_mode="half", rotate=None):
    """x r1 + rotated(x) r2. rotary_mode "half" rotates (left, right) to (-right, left); "interleave" does so with neighbours;
    a matrix `rotate` rotates by x @ rotate."""
    return self * r1 + (_rotated(self, rotary_mode, "npu_rotary_mul") if rotate is None else self @ rotate) * r2


@op(
    "npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin, str layout='BSND', str rotary_mode='half')"
    " -> (Tensor, Tensor)"
)
def npu_apply_rotary_pos_emb(query, key, cos, sin, layout="BSND", rotary_mode="half"):
    """npu_rotary_mul of query and of key; dimensions of a head beyond the width of cos are not changed."""
    name = "npu_apply_rotary_pos_emb"
    check(layout in ("BSND", "SBND", "BNSD", "TND"), name, f"layout is BSND, SBND, BNSD or TND, not {layout}")
    return tuple(_partial(x, cos, sin, rotary_mode, name) for x in (query, key))


@op("npu_interleave_rope(Tensor x, Tensor cos, Tensor sin) -> Tensor")
def npu_interleave_rope(x, cos, sin):
    """npu_rotary_mul of x, reordered to its even elements before its odd ones."""
    q = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return q * cos + _rotated(q, "half", "npu_interleave_rope") * sin


@op(
    "npu_mrope(Tensor positions, Tensor query, Tensor key, Tensor cos_sin_cache, int head_size, *, int[]? mrope_section=None,"
    " str? rotary_mode='half', str? cache_mode='default') -> (Tensor, Tensor)"
)
def npu_mrope(positions, query, key, cos_sin_cache, head_size, *, mrope_section=None, rotary_mode="half", cache_mode="default"):
    """Rotates query and key, [tokens, heads * head_size], by the rows `positions` of the cache, which holds cosines and sines
    concatenated. With positions [3, tokens], row i supplies the columns of section i of mrope_section."""
    name = "npu_mrope"
    check(cache_mode in ("default", "interleave"), name, f"cache_mode is default or interleave, not {cache_mode}")
    cos, sin = cos_sin_cache[positions].chunk(2, -1)
    if positions.dim() == 2:
        check(
            mrope_section is not None and len(mrope_section) == 3 and sum(mrope_section) == cos.size(-1),
            name,
            f"positions of two dimensions need mrope_section with three numbers whose sum is {cos.size(-1)}, not {mrope_section}",
        )
        cos, sin = (_sections(table, mrope_section, cache_mode) for table in (cos, sin))
    wide = (lambda table: table.repeat(1, 2)) if rotary_mode == "half" else (lambda table: table.repeat_interleave(2, -1))
    cos, sin = (wide(table).unsqueeze(-2).to(query.dtype) for table in (cos, sin))
    return tuple(_partial(x.unflatten(-1, (-1, head_size)), cos, sin, rotary_mode, name).reshape(x.shape) for x in (query, key))


def _rotated(x, mode, operator):
    check(mode in ("half", "interleave"), operator, f"rotary_mode is half or interleave, not {mode}")
    check(x.size(-1) % 2 == 0, operator, f"the last dimension has {x.size(-1)} elements, which is odd")
    if mode == "half":
        left, right = x.chunk(2, -1)
        return torch.cat((-right, left), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def _partial(x, cos, sin, mode, operator):
    width = cos.size(-1)
    turned = x[..., :width]
    turned = turned * cos + _rotated(turned, mode, operator) * sin
    return turned if width == x.size(-1) else torch.cat((turned, x[..., width:]), -1)


def _sections(table, sizes, mode):
    if mode == "default":
        return torch.cat([part[row] for row, part in enumerate(table.split(list(sizes), -1))], -1)
    column = torch.arange(table.size(-1), device=table.device)
    row = torch.where(column < 3 * sizes[1], column % 3, 0)
    return table.gather(0, row.expand(1, table.size(1), -1))[0]
