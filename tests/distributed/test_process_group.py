"""Process groups of the backend hccl, with two ranks."""

import pytest
import torch

from tests.distributed.ranks import Ranks

CASES = "tests.distributed.cases"


@pytest.fixture(scope="module")
def ranks():
    """Two ranks with a group of hccl."""
    with Ranks(2) as both:
        assert both.run(CASES, "init", "hccl") == [("hccl", 2, True)] * 2
        yield lambda function, *arguments: both.run(CASES, function, *arguments)
        both.run(CASES, "destroy")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8])
def test_all_reduce_has_every_operator(ranks, dtype):
    for results, inputs in ranks("reductions", dtype):
        wide = inputs.double()
        expected = {"SUM": wide.sum(0), "AVG": wide.mean(0), "PRODUCT": wide.prod(0), "MIN": wide.amin(0), "MAX": wide.amax(0)}
        for op, values in expected.items():
            values = values.trunc() if not dtype.is_floating_point else values
            torch.testing.assert_close(results[op], values.to(dtype))
        if dtype.is_floating_point:
            assert "bitwise operators are for integers" in results["BAND"]
        else:
            assert results["BAND"].tolist() == (inputs[0] & inputs[1]).tolist()
            assert results["BOR"].tolist() == (inputs[0] | inputs[1]).tolist()
            assert results["BXOR"].tolist() == (inputs[0] ^ inputs[1]).tolist()


def test_premul_sum_multiplies_before_it_adds(ranks):
    assert ranks("premultiplied")[0].tolist() == [1.5, 3, 4.5]


def test_complex_numbers_and_bool_are_reduced(ranks):
    number, flags = ranks("complex_and_bool")[1]
    assert number.tolist() == [2 + 1j, 2 + 1j] and flags.tolist() == [True, False, True]


def test_data_arrives_where_it_belongs(ranks):
    first, second = ranks("moves")
    assert first["broadcast"] == second["broadcast"] == [2, 4, 6, 8]
    assert second["reduce"] == [3, 6, 9, 12]
    assert first["all_gather"] == second["all_gather"] == [[1, 2, 3, 4, 5, 6], [2, 4, 6, 8, 10, 12]]
    assert first["all_gather of uneven sizes"] == [[1], [2, 4]]
    assert second["all_gather_into_tensor"] == [1, 2, 2, 4]
    assert first["reduce_scatter_tensor"] == [3, 6] and second["reduce_scatter_tensor"] == [9, 12]
    assert first["reduce_scatter of uneven sizes"] == [3] and second["reduce_scatter of uneven sizes"] == [3, 6]
    assert first["gather"] == [[1, 2], [2, 4]] and second["gather"] is None
    assert first["scatter"] == [2, 4] and second["scatter"] == [3, 5]
    assert first["all_to_all_single"] == [1, 2] and second["all_to_all_single"] == [2, 4]
    assert first["all_to_all of uneven sizes"] == [[1], [2]] and second["all_to_all of uneven sizes"] == [[1, 2], [2, 4]]
    assert first["all_gather_into_tensor_uneven"] == second["all_gather_into_tensor_uneven"] == [1, 2, 4]
    assert first["reduce_scatter_tensor_uneven"] == [3] and second["reduce_scatter_tensor_uneven"] == [6, 9]


def test_messages_arrive(ranks):
    first, second = ranks("messages")
    total = 50000 * 50001 / 2
    assert first[0] == pytest.approx(2 * total, rel=1e-5) and second[0] == pytest.approx(total, rel=1e-5)
    assert first[1] == [2, 4, 6] and second[1] == [1, 2, 3] and second[2] == [1, 2]


def test_objects_are_exchanged(ranks):
    assert ranks("objects")[1] == ([{"rank": 0}, {"rank": 1}], ["word", 7])


def test_barriers_groups_futures_and_meshes_work(ranks):
    assert ranks("host_side")[0] == ([20, 20, 20], True, [1, 1], [2, 2], 2)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"static_graph": True},
        {"find_unused_parameters": True, "gradient_as_bucket_view": True},
        {"hook": "fp16_compress_hook"},
    ],
    ids=str,
)
def test_ddp_trains_as_one_process_does(ranks, settings):
    tolerance = 1e-3 if "hook" in settings else 1e-6
    for weights, expected in ranks("trained", settings):
        torch.testing.assert_close(weights, expected, rtol=tolerance, atol=tolerance)


def test_sync_batch_norm_normalises_over_all_ranks(ranks):
    for output, expected, grad, expected_grad in ranks("normalised"):
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-5)


def test_bad_tensors_are_refused_before_anything_is_sent(ranks):
    on_cpu, strided, sizes, types, splits, any_source = ranks("refused")[0]
    assert "No backend type associated with device type cpu" in on_cpu or "tensors of npu only" in on_cpu
    assert "all_reduce: argument 'tensor'" in strided and "is not contiguous" in strided
    assert "all_gather_into_tensor" in sizes
    assert "all_gather_into_tensor" in types
    assert "add up to 3" in splits
    assert "cannot receive from any rank" in any_source


def test_an_idle_process_uses_no_cpu(ranks):
    assert max(ranks("idle_seconds")) < 0.1


def test_a_mismatch_is_an_error_on_every_rank_and_the_group_can_be_rebuilt(ranks):
    for failure, after, tensor in ranks("mismatched"):
        assert "rank" in failure and "elements" in failure
        assert "cannot be used after a failure" in after
        assert tensor == [2, 2]


@pytest.mark.parametrize(("function", "backend"), [("init", None), ("init", "cpu:gloo,npu:hccl"), ("init_bound", "hccl")])
def test_backends_are_chosen(function, backend):
    with Ranks(2) as both:
        both.run(CASES, function, backend)
        if backend == "cpu:gloo,npu:hccl":
            assert both.run(CASES, "on_the_cpu_too")[0] == ([2, 2], [2, 2])
        else:
            assert both.run(CASES, "premultiplied")[0].tolist() == [1.5, 3, 4.5]
        assert both.run(CASES, "destroy") == [False, False]


def test_a_rank_that_does_not_call_is_an_error_of_the_others():
    with Ranks(2, TORCH_HCCL_TRACE_BUFFER_SIZE="10") as both:
        both.run(CASES, "init_short", "hccl", 2)
        text, seconds, entry = both.run(CASES, "late")[0]
        assert "all_reduce number 2" in text and "did not finish within its timeout of 2000 ms" in text
        assert "rank 0 of 2" in text and "[2]" in text
        assert seconds < 5
        assert entry["profiling_name"] == "hccl:all_reduce" and entry["collective_seq_id"] == 2


def test_a_late_message_is_named_by_the_call_that_waits():
    with Ranks(2) as both:
        both.run(CASES, "init_short", "hccl", 2)
        message, batch = both.run(CASES, "late_messages")[0]
        assert "HcclRecv waits for rank 1" in message
        assert "HcclBatchSendRecv waits for rank 1" in batch
        assert "message number 1" in message and "Collectives of this group" not in message


def test_ranks_are_compared_without_what_they_said_before_a_repair():
    with Ranks(2, TORCH_HCCL_DESYNC_DEBUG="1") as both:
        both.run(CASES, "init_short", "hccl", 2)
        assert "rank 1: it has not reported a timeout" in both.run(CASES, "late_again")[0]
