"""Routing of tokens to experts by operators of the namespace npu equals plain PyTorch."""

import pytest
import torch
import torch_npu

from tests.compare import assert_close
from tests.support import rand


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_routing_of_tokens_to_experts(device):
    x = rand(5, 6).float().to(device)
    y, expert, row = torch_npu.npu_moe_gating_top_k_softmax(x, None, 2)
    best = x.cpu().softmax(-1).topk(2)
    assert_close(y.cpu(), best.values)
    assert torch.equal(expert.cpu().long(), best.indices) and torch.equal(
        row.cpu(), torch.arange(10, dtype=torch.int32).view(2, 5).t()
    )
    tokens = rand(5, 4).float().to(device)
    rows, place, experts = torch_npu.npu_moe_init_routing(tokens, row, expert, 5)
    counts = torch_npu.npu_moe_compute_expert_tokens(experts, 6)
    assert counts.tolist() == [sum(e <= i for e in expert.flatten().tolist()) for i in range(6)]
    made = torch.stack(
        [tokens.cpu()[i] * (e + 1) for e, i in sorted((e, i) for i, pair in enumerate(expert.tolist()) for e in pair)]
    )
    assert torch.equal(rows.cpu() * (experts.cpu().unsqueeze(1) + 1), made)
    out = torch_npu.npu_moe_finalize_routing(made.to(device), None, None, None, y, place, expert)
    factor = (best.values * (best.indices + 1)).sum(1, keepdim=True)
    assert_close(out.cpu(), tokens.cpu() * factor)
    skip, bias = rand(5, 4, seed=1).float().to(device), rand(6, 4).float().to(device)
    more = torch_npu.npu_moe_finalize_routing(made.to(device), skip, skip, bias, y, place, expert)
    added = 2 * skip.cpu() + (best.values.unsqueeze(-1) * bias.cpu()[best.indices]).sum(1)
    assert_close(more.cpu(), out.cpu() + added)
    again, place, count, scales = torch_npu.npu_moe_init_routing_v2(
        tokens, expert, expert_num=6, expert_tokens_num_type=1, expert_tokens_num_flag=True
    )
    assert count.tolist() == expert.flatten().cpu().bincount(minlength=6).tolist() and scales.tolist() == [0] * 10
    assert torch.equal(again[place.long()].view(5, 2, 4)[:, 0], tokens)
    flat, where = torch_npu.npu_moe_token_permute(tokens, expert)
    assert_close(torch_npu.npu_moe_token_unpermute(flat, where, y).cpu(), tokens.cpu() * y.cpu().sum(1, keepdim=True))


def test_routing_within_groups_of_experts():
    x, bias = rand(4, 8).float(), rand(8).float()
    y, expert, norm = torch_npu.npu_moe_gating_top_k(
        x.npu(), 2, bias=bias.npu(), k_group=1, group_count=2, group_select_mode=1, norm_type=1, out_flag=True
    )
    sigmoid = x.sigmoid()
    for i in range(4):
        choice = (sigmoid[i] + bias).view(2, 4)
        group = choice.topk(2).values.sum(1).argmax().item()
        chosen = choice[group].topk(2).indices + 4 * group
        assert expert[i].tolist() == chosen.tolist()
        torch.testing.assert_close(y[i].cpu(), sigmoid[i, chosen] / sigmoid[i, chosen].sum())
    assert_close(norm.cpu(), sigmoid)


@pytest.mark.parametrize("norm_type", [0, 1])
def test_backward_operators_of_routing(norm_type):
    x, bias, grad = rand(4, 8).requires_grad_(), rand(8), rand(4, 3, seed=2).float()
    y, expert, norm = torch_npu.npu_moe_gating_top_k(
        x, 3, bias=bias, norm_type=norm_type, out_flag=True, routed_scaling_factor=1.5
    )
    y.backward(grad)
    own = torch_npu.npu_moe_gating_top_k_backward(
        norm.detach().npu(), grad.npu(), expert.npu(), norm_type=norm_type, routed_scaling_factor=1.5
    )
    assert_close(own.cpu(), x.grad.float())


@pytest.mark.parametrize("mode", [0, 1])
def test_experts_are_found_where_they_are_placed(mode):
    table = torch.tensor([[1, 5, 0, 0], [3, 2, 7, 4], [2, 1, 6, 0]], dtype=torch.int32)
    ids = torch.tensor([[0, 1], [2, 1], [1, 2], [1, 0]], dtype=torch.int32)
    scales, threshold = torch.tensor([[0.5, 0.1], [0.3, 0.3], [0.9, 0.2], [0.4, 0.1]]), torch.tensor([0.4, 0.25])
    active = torch.tensor([True, True, True, False])
    found, mask = torch_npu.npu_moe_update_expert(
        ids.npu(), table.npu(), expert_scales=scales.npu(), pruning_threshold=threshold.npu(), active_mask=active.npu(),
        local_rank_id=5, world_size=8, balance_mode=mode,
    )  # fmt: skip
    for i, row in enumerate(ids.tolist()):
        for j, expert in enumerate(row):
            count, *places = table[expert].tolist()
            share = -(-8 // count)
            assert found[i, j] == places[5 // share if mode == 0 else i % count]
            assert mask[i, j] == (active[i] and scales[i, j] >= threshold[j] * scales[i].sum())
    assert found.dtype == torch.int32 and mask.dtype == torch.bool
    assert torch_npu.npu_moe_update_expert(ids, table, balance_mode=1)[1].all()
    with pytest.raises(ValueError, match="balance_mode 0 needs local_rank_id below world_size, not -1 and -1"):
        torch_npu.npu_moe_update_expert(ids, table)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_tokens_of_all_ranks_are_sorted_by_expert(device):
    counts = torch.tensor([[2, 0, 1], [1, 3, 0]], dtype=torch.int32)
    tokens, scales = rand(7, 4).half(), rand(7).float()
    order = [0, 1, 3, 4, 5, 6, 2]
    rows, own, index, count = torch_npu.npu_moe_re_routing(
        tokens.to(device), counts.to(device), per_token_scales=scales.to(device)
    )
    assert index.tolist() == order and index.dtype == torch.int32 and count.tolist() == [3, 3, 1]
    assert_close((rows, own), (tokens[order], scales[order]))


@pytest.mark.parametrize("kind", [0, 1])
def test_grouped_products_are_added_at_their_tokens(kind):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-8, 8, (5, 6), generator=generator, dtype=torch.int8)
    w = torch.randint(-8, 8, (2, 6, 4), generator=generator, dtype=torch.int8)
    scale, token, logit, shared = rand(2, 4).float(), rand(5).abs().float(), rand(5, seed=1).float(), rand(2, 4).bfloat16()
    rows, groups = torch.tensor([2, 0, 2, 1]), torch.tensor([3, 4] if kind == 0 else [3, 1])
    out = torch_npu.npu_grouped_matmul_finalize_routing(
        x.npu(), w.npu(), groups.npu(), scale=scale.npu(), pertoken_scale=token.npu(), shared_input=shared.npu(),
        logit=logit.npu(), row_index=torch.cat((rows, rows[:1])).npu(), shared_input_weight=0.5, shared_input_offset=1,
        output_bs=3, group_list_type=kind,
    )  # fmt: skip
    expected = torch.zeros(3, 4)
    for i in range(4):
        group = 0 if i < 3 else 1
        expected[rows[i]] += (x[i].long() @ w[group].long()).float() * scale[group] * token[i] * logit[i]
    expected[1:] += 0.5 * shared.float()
    assert_close(out.cpu(), expected)
    with pytest.raises(ValueError, match=r"w has 2 groups, and x 5 rows, but the groups end at \[9, 9\]"):
        torch_npu.npu_grouped_matmul_finalize_routing(
            x, w, torch.tensor([9, 0]), scale=scale, row_index=torch.arange(5), pertoken_scale=token
        )
