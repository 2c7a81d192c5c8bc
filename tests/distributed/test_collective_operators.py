"""Operators of the namespace npu that communicate, against the same steps in one process on the CPU."""

import pytest
import torch
import torch_npu
from torch import distributed as dist

from tests.distributed.modes import setting

WORLDS = pytest.mark.parametrize("world", [2, 4])
EXPERTS = 2  # per rank


def name_of(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("npu")).get_hccl_comm_name(dist.get_rank())


def numbers(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def integers(*shape, seed):
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(seed)).to(torch.int8)


def same(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found.detach().cpu().float(), expected.float(), rtol=tolerance, atol=tolerance)


def near(found, expected):
    """Compares two tensors with a tolerance for the rounding of 16-bit numbers."""
    assert found.shape == expected.shape
    assert (found.detach().cpu().float() - expected).norm() < 0.01 * expected.norm()


def inputs(rank, *shape, seed=0):
    """The tensors of all ranks on the CPU."""
    return [numbers(*shape, seed=seed + 10 * r) for r in range(rank.world)]


def products(rank):
    world, me, hcom = rank.world, rank.rank, name_of()
    ops, device = torch.ops.npu, rank.device
    a, b, bias = inputs(rank, 8, 6), inputs(rank, 6, 4, seed=1), numbers(4, seed=3)
    mine, weight = a[me].to(device), b[me].to(device)
    total = sum(x @ w + bias for x, w in zip(a, b, strict=True))
    same(ops.npu_mm_all_reduce_base(mine, weight, hcom, bias=bias.to(device)), total)
    same(ops.npu_mm_all_reduce_base(mine, weight, hcom, x3=torch.ones(8, 4, device=device)), total - world * bias + world)
    same(ops.npu_mm_reduce_scatter_base(mine, weight, hcom, world, bias=bias.to(device)), total.chunk(world)[me])
    y, gathered = ops.npu_all_gather_base_mm(mine, weight, hcom, world, bias=bias.to(device))
    same(gathered, torch.cat(a), 0)
    same(y, torch.cat(a) @ b[me] + bias)
    assert ops.npu_all_gather_base_mm(mine, weight, hcom, world, gather_output=False)[1].numel() == 0
    wide = numbers(6 * world, 4, seed=5)
    exchanged = torch.cat([x.chunk(world)[me] for x in a], 1)
    y, found = ops.npu_all_to_all_matmul(mine, wide.to(device), hcom, world)
    same(found, exchanged, 0)
    same(y, exchanged @ wide)
    expected = torch.cat([(x @ w).chunk(world, 1)[me] for x, w in zip(a, b, strict=True)])
    same(ops.npu_matmul_all_to_all(mine, weight, hcom, world), expected)


def quantised_products(rank):
    world, me, hcom = rank.world, rank.rank, name_of()
    ops, device = torch.ops.npu, rank.device
    a, b = integers(8, 6, seed=me), integers(6, 4, seed=50)
    every = [integers(8, 6, seed=r) for r in range(world)]
    rows, columns = torch.arange(1, 9) / 8, torch.arange(1, 5) / 4
    scaled = [(x.float() @ b.float()) * rows.unsqueeze(1) * columns for x in every]
    x, w, r, c = (each.to(device) for each in (a, b, rows, columns))
    half = {"x1_scale": r, "x2_scale": c}
    near(ops.npu_mm_all_reduce_base(x, w, hcom, dequant_scale=c, pertoken_scale=r), sum(scaled))
    near(ops.npu_mm_reduce_scatter_base(x, w, hcom, world, **half), sum(scaled).chunk(world)[me])
    near(ops.npu_quant_mm_reduce_scatter(x, w, hcom, world, **half)[0], sum(scaled).chunk(world)[me])
    near(ops.npu_all_gather_base_mm(x, w, hcom, world, **half)[0], torch.cat(scaled))
    near(ops.npu_all_gather_quant_mm(x, w, hcom, world, **half)[0], torch.cat(scaled))
    expected = torch.cat([y.chunk(world, 1)[me] for y in scaled])
    near(ops.npu_quant_matmul_all_to_all(x, w, hcom, world, **half), expected)
    scale = torch.full((4,), 0.5)
    floating = numbers(8, 6, seed=me)
    found = ops.npu_mm_all_reduce_base(floating.to(device), w, hcom, antiquant_scale=scale.to(device))
    same(found, sum(numbers(8, 6, seed=r) @ (b.float() * scale) for r in range(world)), 1e-3)
    wide = integers(6 * world, 4, seed=60)
    exchanged = torch.cat([numbers(8, 6, seed=r, dtype=torch.bfloat16).chunk(world)[me] for r in range(world)], 1).float()
    found = ops.npu_all_to_all_quant_matmul(floating.bfloat16().to(device), wide.to(device), hcom, world, x2_scale=c)[0]
    near(found, exchanged @ wide.float() * columns)


def routing(rank, seed, tokens=5, k=2, width=4):
    """(x, expert_ids, scales) of each rank."""
    every = []
    for r in range(rank.world):
        generator = torch.Generator().manual_seed(seed + r)
        ids = torch.stack([torch.randperm(EXPERTS * rank.world, generator=generator)[:k] for _ in range(tokens)])
        every.append((numbers(tokens, width, seed=seed + r), ids.int(), torch.rand(tokens, k, generator=generator)))
    return every


def experts(rank):
    """alltoallv_gmm and gmm_alltoallv: rows to experts and back."""
    world, me, hcom, device = rank.world, rank.rank, name_of(), rank.device
    generator = torch.Generator().manual_seed(1)
    counts = torch.randint(0, 4, (world, world, EXPERTS), generator=generator)  # sender, receiver, expert
    rows = [numbers(int(counts[r].sum()), 6, seed=r) for r in range(world)]
    weights = [numbers(EXPERTS, 6, 4, seed=90 + r) for r in range(world)]
    shared = numbers(3, 6, seed=7)
    sent, received = counts[me].flatten().tolist(), counts[:, me].flatten().tolist()
    blocks = [list(rows[r].split(counts[r].flatten().tolist())) for r in range(world)]
    mine = [torch.cat([blocks[r][me * EXPERTS + e] for r in range(world)]) for e in range(EXPERTS)]
    x, weight, extra = rows[me].to(device), weights[me].to(device), shared.to(device)
    y, mm_y, permuted = torch.ops.npu.npu_alltoallv_gmm(
        x, weight, hcom, world, sent, received, mm_x=extra, mm_weight=weight[0], permute_out_flag=True
    )
    same(permuted, torch.cat(mine), 0)
    same(y, torch.cat([part @ weights[me][e] for e, part in enumerate(mine)]))
    same(mm_y, shared @ weights[me][0])
    back, none = torch.ops.npu.npu_gmm_alltoallv(
        permuted, weight.mT, hcom, world, received, sent, trans_gmm_weight=True
    )  # the same rows are sent back
    expected = torch.cat([blocks[me][i] @ weights[i // EXPERTS][i % EXPERTS] for i in range(world * EXPERTS)])
    same(back, expected)
    assert none.numel() == 0
    codes, scale = x.to(torch.float8_e4m3fn), torch.full((1,), 2.0, device=device)
    narrow = weight.to(torch.float8_e4m3fn)
    number = 6  # torch's number of float32
    ways = (hcom, world, sent, received)
    for kind in (None, torch_npu.hifloat8):
        if kind is not None:
            codes, narrow = (torch_npu.npu_dtype_cast(each, kind) for each in (x, weight))
            x8, w8 = (torch_npu.npu_dtype_cast(each, torch.float32, input_dtype=kind) for each in (codes, narrow))
        else:
            x8, w8 = codes.float(), narrow.float()
        types = {"gmm_x_dtype": kind, "gmm_weight_dtype": kind}
        arguments = (codes, narrow, scale, scale, *ways, number)
        found, _, rows8 = torch.ops.npu.npu_alltoallv_quant_gmm(*arguments, permute_out_flag=True, **types)
        plain, _, rows = torch.ops.npu.npu_alltoallv_gmm(x8, w8, *ways, permute_out_flag=True)
        near(found, plain.cpu() * 4)
        assert rows8.dtype == codes.dtype
        back = (rows8, narrow, scale, scale, hcom, world, received, sent, number)
        expected = torch.ops.npu.npu_gmm_alltoallv(rows, w8, hcom, world, received, sent)[0]
        near(torch.ops.npu.npu_quant_gmm_alltoallv(*back, **types)[0], expected.cpu() * 4)
    with pytest.raises(ValueError, match="gmm_x_quant_mode must be 1, not 6"):
        torch.ops.npu.npu_alltoallv_quant_gmm(codes, narrow, scale, scale, *ways, number, gmm_x_quant_mode=6)


def mixture(rank, version, quantised, masked):
    """Dispatch, multiply by a factor of each expert, combine. The result must be the same as with all experts on this rank."""
    world, me, hcom, device = rank.world, rank.rank, name_of(), rank.device
    every = routing(rank, seed=3)
    x, ids, scales = (each.to(device) for each in every[me])
    mask = torch.tensor([True] * 3 + [False] * 2) if masked else None
    options = {"x_active_mask": mask.to(device)} if masked else {}
    common = (hcom, world, me, EXPERTS * world)
    suffix = "_v2" if version == 2 else ""
    dispatch = getattr(torch.ops.npu, f"npu_moe_distribute_dispatch{suffix}")
    combine = getattr(torch.ops.npu, f"npu_moe_distribute_combine{suffix}")
    got, scale, info, tokens, ends, *_ = dispatch(x, ids, *common, quant_mode=2 if quantised else 0, **options)
    sizes = []
    for expert in range(me * EXPERTS, (me + 1) * EXPERTS):
        chosen = [r_ids == expert for _, r_ids, _ in every]
        sizes.append(sum(int((c & mask[:, None]).sum() if masked else c.sum()) for c in chosen))
    assert tokens.tolist() == sizes and tokens.dtype == torch.int64
    assert got.dtype == (torch.int8 if quantised else x.dtype)
    assert info.numel() == (got.size(0) * 128 if version == 2 else ids.numel())
    rows = got.float() * scale.unsqueeze(1) if quantised else got
    factors = torch.repeat_interleave(torch.arange(me * EXPERTS, (me + 1) * EXPERTS, device=device) + 1.0, tokens)
    out = rows.clone()
    out[: len(factors)] *= factors.unsqueeze(1)
    found = combine(out, ids, info, ends, scales, *common, shared_expert_x=x, **options)
    weight = (every[me][2] * (every[me][1] + 1)).sum(1, keepdim=True)
    weight = weight * mask[:, None] if masked else weight
    same(found, every[me][0] * (weight + 1), 0.15 if quantised else 1e-4)
    if version == 2 and not quantised:
        gamma, residual = torch.ones(4, device=device), torch.ones(5, 1, 4, device=device)
        names = (out, ids, info, ends, scales, residual, gamma, *common)
        y, _, total = torch.ops.npu.npu_moe_distribute_combine_add_rms_norm(*names, **options)
        same(total.squeeze(1), every[me][0] * weight + 1)
        same(y, torch.nn.functional.rms_norm(total.cpu(), (4,), eps=1e-6))


def special_experts(rank):
    """Zero experts return zeros, and copy experts return the token."""
    world, me, hcom, device = rank.world, rank.rank, name_of(), rank.device
    count = EXPERTS * world
    x = numbers(3, 4, seed=me).to(device)
    ids = torch.tensor([[0, count], [1, count + 1], [count, count + 1]], dtype=torch.int32, device=device)
    scales = torch.full((3, 2), 0.5, device=device)
    kinds = {"zero_expert_num": 1, "copy_expert_num": 1}
    got, _, info, _, ends, *_ = torch.ops.npu.npu_moe_distribute_dispatch_v2(x, ids, hcom, world, me, count, **kinds)
    found = torch.ops.npu.npu_moe_distribute_combine_v2(got, ids, info, ends, scales, hcom, world, me, count, ori_x=x, **kinds)
    same(found, x.cpu() * torch.tensor([[0.5], [1.0], [0.5]]))


def gradients(rank):
    """The gradients belong to the sum of the losses of all ranks."""
    world, me, hcom, device = rank.world, rank.rank, name_of(), rank.device
    a = [x.requires_grad_() for x in inputs(rank, 4, 6)]
    weight = numbers(6, 4, seed=2)
    total = sum(x @ weight for x in a)
    (world * total.pow(2).sum() + total.pow(3).sum()).backward()
    mine = a[me].detach().to(device).requires_grad_()
    y = torch.ops.npu.npu_mm_all_reduce_base(mine, weight.to(device), hcom)
    part = torch.ops.npu.npu_mm_reduce_scatter_base(mine, weight.to(device), hcom, world)
    (y.pow(2).sum() + part.pow(3).sum()).backward()
    same(mine.grad, a[me].grad, 1e-3)


def smaller_groups(rank):
    """The operator uses the named communicator, not the default process group."""
    pairs = [dist.new_group([r, r + 1]) for r in range(0, rank.world, 2)]
    pair, first = pairs[rank.rank // 2], rank.rank // 2 * 2
    x = torch.full((2, 2), float(rank.rank), device=rank.device)
    found = torch.ops.npu.npu_mm_all_reduce_base(x, torch.eye(2, device=rank.device), name_of(pair))
    assert found.tolist() == [[2.0 * first + 1] * 2] * 2


def barrier(rank):
    x = torch.full((3,), float(rank.rank), device=rank.device)
    found = torch.ops.npu._npu_distribute_barrier(x, name_of(), rank.world)
    x.fill_(-1)
    assert found.tolist() == [float(rank.rank)] * 3
    with pytest.raises(ValueError, match="world size is 9"):
        torch.ops.npu._npu_distribute_barrier(x, name_of(), 9)
    with pytest.raises(NotImplementedError, match="time_out"):
        torch.ops.npu._npu_distribute_barrier(x, name_of(), rank.world, time_out=x)
    phases = (x, x, name_of(), rank.world, rank.rank, rank.world)
    with pytest.raises(NotImplementedError, match="two phases; use npu_moe_distribute_dispatch_v2"):
        torch.ops.npu.npu_moe_distribute_dispatch_setup(*phases)


def odd_shapes(rank):
    """No rows, no inner dimension, one row per rank, transposed operands, three dimensions."""
    world, me, hcom = rank.world, rank.rank, name_of()
    ops, device = torch.ops.npu, rank.device
    for rows, inner, columns in ((0, 3, 4), (world, 0, 4), (world, 1, world), (3 * world, 5, 2 * world)):
        a, b = inputs(rank, inner, rows), inputs(rank, columns, inner, seed=1)
        x, w = a[me].to(device).t(), b[me].to(device).t()
        total = sum(u.t() @ v.t() for u, v in zip(a, b, strict=True))
        same(ops.npu_mm_all_reduce_base(x, w, hcom), total)
        same(ops.npu_mm_reduce_scatter_base(x, w, hcom, world), total.chunk(world)[me] if rows else total)
        y, gathered = ops.npu_all_gather_base_mm(x, w, hcom, world)
        same(gathered, torch.cat([u.t() for u in a]), 0)
        same(y, torch.cat([u.t() for u in a]) @ b[me].t())
        if columns % world == 0:
            expected = torch.cat([(u.t() @ v.t()).chunk(world, 1)[me] for u, v in zip(a, b, strict=True)])
            same(ops.npu_matmul_all_to_all(x, w, hcom, world), expected)
        wide = numbers(columns, inner * world, seed=5).t()
        exchanged = torch.cat([u.t().unflatten(0, (world, -1))[me] for u in a], 1)
        same(ops.npu_all_to_all_matmul(x, wide.to(device), hcom, world)[0], exchanged @ wide)
    a, b = inputs(rank, 2, 3, 5), inputs(rank, 5, 4, seed=1)
    found = ops.npu_mm_all_reduce_base(a[me].to(device), b[me].to(device), hcom)
    same(found, sum(u @ v for u, v in zip(a, b, strict=True)))


def scales_of_ranks(rank):
    """Each rank has a different scale, for one row and for several rows."""
    world, me, hcom, device = rank.world, rank.rank, name_of(), rank.device
    for rows in (1, 3):
        every, b = [integers(rows, 6, seed=r) for r in range(world)], integers(6, 4, seed=50)
        expected = torch.cat([(x.float() @ b.float()) * (r + 1) for r, x in enumerate(every)])
        x, w, one = every[me].to(device), b.to(device), torch.ones(4, device=device)
        for scale in (torch.full((1,), me + 1.0), torch.full((rows,), me + 1.0), torch.full((rows, 1), me + 1.0)):
            options = {"x1_scale": scale.to(device), "x2_scale": one}
            near(torch.ops.npu.npu_all_gather_base_mm(x, w, hcom, world, **options)[0], expected)
            near(torch.ops.npu.npu_all_gather_quant_mm(x, w, hcom, world, **options)[0], expected)


def no_tokens(rank):
    """Only rank 0 has tokens, all of them for the last expert; then no rank has any."""
    world, me, hcom, device = rank.world, rank.rank, name_of(), rank.device
    count = EXPERTS * world
    for tokens in (3, 0):
        mine = tokens if me == 0 else 0
        x = numbers(mine, 4, seed=1).to(device)
        ids = torch.full((mine, 1), count - 1, dtype=torch.int32, device=device)
        scales = torch.full((mine, 1), 0.5, device=device)
        common = (hcom, world, me, count)
        for suffix in ("", "_v2"):
            dispatch = getattr(torch.ops.npu, f"npu_moe_distribute_dispatch{suffix}")
            got, _, info, tokens_of, ends, *_ = dispatch(x, ids, *common, global_bs=3 * world)
            assert tokens_of.tolist() == [0, tokens if me == world - 1 else 0]
            combine = getattr(torch.ops.npu, f"npu_moe_distribute_combine{suffix}")
            same(combine(got, ids, info, ends, scales, *common), x.cpu() / 2)


def refusals(rank):
    world, me, hcom, device = rank.world, rank.rank, name_of(), rank.device
    ops, x, w = torch.ops.npu, torch.ones(3, 6, device=device), torch.ones(6, 4, device=device)
    ids = torch.zeros(3, 1, dtype=torch.int32, device=device)
    cases = [
        ("no process group .* communicator 'other'", lambda: ops.npu_mm_all_reduce_base(x, w, "other")),
        ("world size is 9", lambda: ops.npu_mm_reduce_scatter_base(x, w, hcom, 9)),
        ("cannot be split into", lambda: ops.npu_mm_reduce_scatter_base(x, w, hcom, world)),
        ("cannot be multiplied", lambda: ops.npu_all_gather_base_mm(x, x, hcom, world)),
        ("reduce_op must be 'sum'", lambda: ops.npu_mm_all_reduce_base(x, w, hcom, reduce_op="max")),
        ("same dtype", lambda: ops.npu_mm_all_reduce_base(x, w.half(), hcom)),
        ("gather_index must be 0", lambda: ops.npu_all_gather_base_mm(x, w, hcom, world, gather_index=1)),
        ("all2all_axes", lambda: ops.npu_matmul_all_to_all(x, w, hcom, world, all2all_axes=[0, 1])),
        ("send_counts must have", lambda: ops.npu_alltoallv_gmm(x, w.expand(1, 6, 4), hcom, world, [3], [3])),
        ("equal parts of", lambda: ops.npu_moe_distribute_dispatch(x, ids, hcom, world, me, world + 1)),
        ("ep_rank_id is", lambda: ops.npu_moe_distribute_dispatch(x, ids, hcom, world, (me + 1) % world, world)),
        ("expert_ids must be from 0", lambda: ops.npu_moe_distribute_dispatch(x, ids - 1, hcom, world, me, world)),
        ("tp_world_size must be", lambda: ops.npu_moe_distribute_dispatch(x, ids, hcom, world, me, world, tp_world_size=2)),
        ("quant_mode must be 0", lambda: ops.npu_moe_distribute_dispatch(x, ids, hcom, world, me, world, quant_mode=1)),
    ]
    one, half = torch.ones(4, device=device), x.half()
    codes, packed = x.to(torch.int8), w.to(torch.int8)
    tokens = ops.npu_moe_distribute_dispatch(x, ids, hcom, world, me, world)
    back = (tokens[0], ids, tokens[2], tokens[4], torch.ones(3, 1, device=device), hcom, world, me, world)
    gmm = (w.expand(1, 6, 4), hcom, world, [1] * world, [1] * world)
    cases += [
        ("two or three dimensions", lambda: ops.npu_mm_all_reduce_base(x[0], w, hcom)),
        ("self must have two", lambda: ops.npu_mm_reduce_scatter_base(torch.ones(4 * world, device=device), w, hcom, world)),
        ("self must have two dimensions", lambda: ops.npu_all_gather_base_mm(x[0], w, hcom, world)),
        ("x1 must have two dimensions", lambda: ops.npu_all_to_all_matmul(x[0], w, hcom, world)),
        ("bias must have 4 numbers", lambda: ops.npu_mm_all_reduce_base(x[:1], w, hcom, bias=torch.ones(3, 4, device=device))),
        (
            "x3 must be torch.float16",
            lambda: ops.npu_mm_all_reduce_base(half, w.half(), hcom, x3=torch.ones(3, 4, device=device)),
        ),
        ("pertoken_scale needs", lambda: ops.npu_mm_all_reduce_base(x, w, hcom, pertoken_scale=one[:3])),
        ("need antiquant_scale", lambda: ops.npu_mm_all_reduce_base(x, w, hcom, antiquant_offset=one)),
        ("not both", lambda: ops.npu_mm_all_reduce_base(half, packed, hcom, antiquant_scale=one, dequant_scale=one)),
        (
            "y_dtype must be",
            lambda: ops.npu_mm_all_reduce_base(half, packed, hcom, antiquant_scale=one.half(), y_dtype=torch.float32),
        ),
        ("x1_scale must have 1 or 3", lambda: ops.npu_all_gather_base_mm(codes, packed, hcom, world, x1_scale=one, x2_scale=one)),
        ("x2_scale must have 1 or 4", lambda: ops.npu_all_gather_base_mm(codes, packed, hcom, world, x2_scale=one[:3])),
        ("need scales", lambda: ops.npu_all_gather_base_mm(codes, packed, hcom, world)),
        ("at least one expert", lambda: ops.npu_alltoallv_gmm(x, w.expand(0, 6, 4), hcom, world, [], [])),
        ("same dtype", lambda: ops.npu_gmm_alltoallv(half, *gmm)),
        ("it is torch.uint8", lambda: ops.npu_alltoallv_quant_gmm(x.byte(), packed.expand(1, 6, 4), one[0], one[0], *gmm[1:], 6)),
        ("shared_expert_x must be", lambda: ops.npu_moe_distribute_combine(*back, shared_expert_x=x[:1])),
        ("expert_scales must have the shape", lambda: ops.npu_moe_distribute_dispatch(x, ids, *back[5:], expert_scales=one)),
    ]
    for message, call in cases:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(NotImplementedError, match="comm_quant_scale_1"):
        ops.npu_mm_all_reduce_base(x, w, hcom, comm_quant_scale_1=torch.ones(4, device=device))
    found = ops.npu_moe_distribute_dispatch(x, ids, hcom, world, me, world)
    with pytest.raises(ValueError, match="ep_send_counts do not match"):
        ones = torch.ones(3, 1, device=device)
        ops.npu_moe_distribute_combine(found[0], ids, found[2], found[4] + 1, ones, hcom, world, me, world)


@WORLDS
@pytest.mark.parametrize(
    "function",
    [
        products, quantised_products, odd_shapes, scales_of_ranks, experts, special_experts, no_tokens, gradients,
        smaller_groups, barrier, refusals,
    ],
)  # fmt: skip
def test_operators_that_communicate(rank_sets, function, world):
    rank_sets.get(setting("hccl", world)).run(function)


@WORLDS
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_tokens_go_to_their_experts_and_back(rank_sets, version, quantised, masked, world):
    rank_sets.get(setting("hccl", world)).run(mixture, version, quantised, masked)
