"""torch_npu.testing: comparisons pass and fail correctly; tests are generated, skipped and timed."""

import unittest
import warnings

import numpy as np
import pytest
import torch
import torch_npu.testing.common_methods_invocations as invocations
from torch_npu.testing import common_distributed, common_utils
from torch_npu.testing.decorator import (
    Dtypes,
    Formats,
    feed_data,
    gen_op_input,
    gen_ops_testcase,
    instantiate_ops_tests,
    instantiate_tests,
)
from torch_npu.testing.testcase import TestCase

NPU = torch.arange(6.0).reshape(2, 3)


class Case(TestCase):
    __test__ = False

    def runTest(self): ...


CASE = Case()


def fails(call, *args, **kwargs):
    with pytest.raises(AssertionError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


EQUAL = [
    (lambda: (NPU.npu(), NPU), {}),
    (lambda: (NPU.npu(), NPU + 5e-6), {}),
    (lambda: (NPU.npu(), NPU + 5e-5), {"prec": 1e-4}),
    (lambda: (NPU.npu(), NPU.numpy()), {}),
    (lambda: (np.int64(5), NPU.npu().max()), {}),
    (lambda: (5, NPU.npu().max().long()), {"prec": 1e-4}),
    (lambda: (NPU.half(), NPU.npu()), {}),
    (lambda: ([1, {"a": NPU}], (1, {"a": NPU.npu()})), {}),
    (lambda: (torch.tensor([torch.nan, 1]), torch.tensor([torch.nan, 1]).npu()), {}),
    (lambda: (torch.tensor([torch.inf]), torch.tensor([torch.inf]).npu()), {"allow_inf": True}),
    (lambda: (torch.tensor([True, False]).npu(), torch.tensor([True, False])), {}),
    (lambda: (NPU.to_sparse(), NPU.to_sparse()), {}),
    (lambda: ("text", "text"), {}),
    (lambda: ({1, 2}, {2, 1}), {}),
    (lambda: (10**30, 10**30), {}),
    (lambda: (None, None), {}),
]
DIFFERENT = [
    (lambda: (NPU.npu(), NPU + 2e-5), {}, r"at \(\d, \d\) differ by [12].*e-05, more than 1e-05"),
    (lambda: (NPU.npu(), NPU + 5e-4), {"prec": 1e-4}, "more than 0.0001"),
    (lambda: (NPU.npu(), NPU.reshape(3, 2)), {}, r"\(2, 3\) != \(3, 2\)"),
    (lambda: (NPU.half(), NPU.npu()), {"exact_dtype": True}, "torch.float16 != torch.float32"),
    (lambda: (torch.tensor([torch.inf]), torch.tensor([torch.inf])), {}, "allow_inf=True compares them"),
    (lambda: (torch.tensor([torch.inf]), torch.tensor([-torch.inf])), {"allow_inf": True}, "differ"),
    (lambda: (torch.tensor([torch.nan]), torch.tensor([1.0])), {}, "differ"),
    (lambda: (torch.tensor([True]), torch.tensor([1])), {}, "torch.bool != torch.int64"),
    (lambda: (0.1, 0.1001), {}, "differ by 0.0001"),
    (lambda: ([1, 2], [1]), {}, "2 != 1"),
    (lambda: ({"a": 1}, {"b": 1}), {}, "dict_keys"),
    (lambda: (NPU.npu(), 1.0), {}, "a tensor of several elements is no number"),
    (lambda: ("a", "b"), {}, "'a' != 'b'"),
    (lambda: (np.float64(1), NPU.npu().max()), {"prec": "a message"}, "a message"),
]


@pytest.mark.parametrize(("pair", "options"), EQUAL)
def test_equal_values_are_equal(pair, options):
    CASE.assertEqual(*pair(), **options)
    fails(CASE.assertNotEqual, *pair(), prec=options.get("prec"))


@pytest.mark.parametrize(("pair", "options", "message"), DIFFERENT)
def test_different_values_are_named(pair, options, message):
    with pytest.raises(AssertionError, match=message):
        CASE.assertEqual(*pair(), **options)


def test_other_comparisons():
    CASE.assertNotEqual(NPU.npu(), NPU + 1)
    CASE.assertNotEqual(NPU, NPU[0])
    CASE.assertAlmostEqual(1.0, 1.001, places=2)
    fails(CASE.assertAlmostEqual, 1.0, 1.001, places=4)
    CASE.assertAlmostEqual(1.0, 1.5, delta=1)
    CASE.assertTensorsSlowEqual(NPU.npu(), NPU, 1e-3)
    fails(CASE.assertTensorsSlowEqual, NPU.npu(), NPU + 1, 1e-3)
    CASE.assertObjectIn(NPU, [1, NPU])
    fails(CASE.assertObjectIn, NPU, [NPU.clone()])


def test_warnings():
    warn = lambda: warnings.warn("of one kind", stacklevel=1)  # noqa: E731
    CASE.assertWarns(warn)
    fails(CASE.assertWarns, lambda: None)
    CASE.assertNotWarn(lambda: None)
    assert "of one kind" in fails(CASE.assertNotWarn, warn)
    with CASE.maybeWarnsRegex(UserWarning, "of one kind"):
        warn()
    with pytest.raises(AssertionError, match="of one kind"), CASE.maybeWarnsRegex(UserWarning, "of another"):
        warn()


def values(*changes, size=20000, dtype=torch.float32):
    """Ones, with the changes added to the first elements."""
    made = torch.ones(size)
    made[: len(changes)] += torch.tensor(changes)
    return made.to(dtype)


NAN = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0])
RTOL_EQUAL = [
    (lambda: (values(), values(5e-5).npu()), {}),
    (lambda: (values() * 1e6, values(5e-5).npu() * 1e6), {}),
    (lambda: (values() * 1e-6, values(5.0) * 1e-6), {}),
    (lambda: (values(), values(9e-4, -9e-4)), {}),
    (lambda: (values(dtype=torch.float16), values(9e-4, dtype=torch.float16)), {}),
    (lambda: (values(0.25, dtype=torch.bfloat16), values(0.25, dtype=torch.bfloat16).npu()), {}),
    (lambda: (NAN, NAN.npu()), {}),
    (lambda: (NAN.bfloat16(), NAN.bfloat16()), {}),
    (lambda: (np.ones(3, np.uint8), torch.ones(3, dtype=torch.uint8).npu()), {}),
    (lambda: ([NPU, 1.0], [NPU.npu(), 1.00001]), {}),
    (lambda: (torch.tensor([1.0, 2.0]).npu(), [1.0, 2.0]), {}),
    (lambda: (values(), values(0.05, 0.05)), {"prec": 0.04}),
    (lambda: (NPU.double(), NPU.npu()), {"auto_trans_dtype": True}),
]
RTOL_DIFFERENT = [
    (lambda: (values(), values(9e-4, -9e-4, 9e-4)), {}, "3 of 20000 elements"),
    (lambda: (values(), values(0.5)), {}, r"1 of 20000 .* 1\.0 and 1\.5 at \(0,\)"),
    (lambda: (values(), values(1e30)), {}, "1 of 20000"),
    (lambda: (values(), values(torch.nan)), {}, "1 of 20000"),
    (lambda: (NAN, NAN.flip(0)), {}, "4 of 4"),
    (lambda: (torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([torch.inf], dtype=torch.bfloat16)), {}, "1 of 1"),
    (lambda: (torch.zeros(3, dtype=torch.uint8), torch.ones(3, dtype=torch.uint8)), {}, "3 of 3"),
    (lambda: (torch.tensor([True] * 9999 + [False]), torch.tensor([True] * 10000)), {}, "1 of 10000"),
    (lambda: (NPU, NPU.reshape(3, 2)), {}, "shapes"),
    (lambda: (NPU, NPU.double()), {}, "dtypes torch.float32 and torch.float64 differ"),
    (lambda: ([NPU], [NPU, NPU]), {}, "1 values on one side, 2 on the other"),
    (lambda: (NPU, NPU + 1), {"message": "mine"}, "mine"),
]


@pytest.mark.parametrize(("pair", "options"), RTOL_EQUAL)
def test_results_that_differ_by_rounding_pass(pair, options):
    CASE.assertRtolEqual(*pair(), **options)


@pytest.mark.parametrize(("pair", "options", "message"), RTOL_DIFFERENT)
def test_wrong_results_fail_and_are_named(pair, options, message):
    with pytest.raises(AssertionError, match=message):
        CASE.assertRtolEqual(*pair(), **options)


def test_sparse_tensors_are_made_and_checked(monkeypatch):
    tensor, indices, entries = CASE.genSparseTensor([4, 5, 2], 2, 6, True)
    assert (tensor.shape, indices.shape, entries.shape, tensor.is_coalesced()) == ((4, 5, 2), (2, 12), (12, 2), False)
    CASE.assertEqual(CASE.safeToDense(tensor), tensor.to_dense())
    assert CASE.genSparseTensor([3], 1, 2, False)[0].is_coalesced()
    tensor = torch.sparse_coo_tensor([[2, 0, 2]], [1.0, 2.0, 4.0], (3,))
    coalesced = CASE.safeCoalesce(tensor)
    assert coalesced.indices().tolist() == [[0, 2]] and coalesced.values().tolist() == [2, 5]
    with pytest.raises(RuntimeError, match="no room for 2 entries"):
        CASE.genSparseTensor([0], 1, 2, False)
    wrong = coalesced * 2
    monkeypatch.setattr(torch.Tensor, "coalesce", lambda self: wrong)
    fails(CASE.safeCoalesce, tensor)


def test_texts_are_compared_with_files(tmp_path, monkeypatch):
    (tmp_path / "test_texts.py").write_text(
        "from torch_npu.testing.testcase import TestCase\nclass Texts(TestCase):\n    def test_one(self): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from test_texts import Texts

    case = Texts("test_one")
    assert "run the test with EXPECTTEST_ACCEPT=1" in fails(case.assertExpected, "a")
    monkeypatch.setenv("EXPECTTEST_ACCEPT", "1")
    case.assertExpected("a")
    case.assertExpectedRaises(ZeroDivisionError, lambda: 1 / 0, subname="zero")
    case.assertExpectedStripMangled("x __torch__.Y z", "mangled")
    monkeypatch.delenv("EXPECTTEST_ACCEPT")
    case.assertExpected("a")
    fails(case.assertExpected, "b")
    case.assertExpectedRaises(ZeroDivisionError, lambda: 1 / 0, subname="zero")
    assert (tmp_path / "expect" / "Texts.test_one-mangled.expect").read_text() == "x  z"


def run(cls):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    return result


def test_a_class_is_seeded_and_has_its_device(monkeypatch):
    seen = []

    class Seeds(TestCase):
        def test_one(self):
            seen.append((torch.rand(1).item(), np.random.rand(), self.npu_device))

        test_two = test_one

    assert run(Seeds).wasSuccessful()
    assert seen[0] == seen[1] and seen[0][2] == "npu:0"
    monkeypatch.setenv("SET_NPU_DEVICE", "x")
    with pytest.raises(ValueError, match="SET_NPU_DEVICE is 'x', but must be the number of a device"):
        common_utils.get_npu_device()


def test_seed_and_device_are_set_by_the_environment(monkeypatch):
    def drawn(seed):
        monkeypatch.setenv("SEED", seed)
        CASE.setUp()
        return torch.rand(1).item(), torch.rand(1, device="npu").item(), np.random.rand()

    assert drawn("3") == drawn("3") != drawn("4")
    monkeypatch.setenv("SET_NPU_DEVICE", "1")
    try:
        assert common_utils.set_npu_device() == "npu:1" and torch.npu.current_device() == 1
    finally:
        torch.npu.set_device(0)


def test_tests_are_made_for_dtypes_and_formats():
    seen = []

    @instantiate_tests
    class Made(TestCase):
        @Dtypes(torch.float16, torch.float32)
        @Formats(2, 29)
        def test_both(self, device, dtype, npu_format):
            seen.append((device, dtype, npu_format))

        @Dtypes(torch.int32)
        def test_one(self, dtype): ...

    names = [name for name in vars(Made) if name.startswith("test_")]
    assert names == [
        "test_both_float16_2",
        "test_both_float16_29",
        "test_both_float32_2",
        "test_both_float32_29",
        "test_one_int32",
    ]
    assert run(Made).wasSuccessful()
    assert seen[0] == ("npu", torch.float16, 2) and len(seen) == 4


def test_bad_dtypes_and_formats_are_named():
    for make in (lambda: Dtypes(), lambda: Dtypes("float32"), lambda: Formats()):
        with pytest.raises(RuntimeError, match="takes"):
            make()
    with pytest.raises(RuntimeError, match="test_one must have one argument with 'dtype' in its name, but has"):

        @instantiate_tests
        class Made(TestCase):
            @Dtypes(torch.int32)
            def test_one(self, kind): ...


def test_tests_are_made_for_operators():
    class Info:
        name = "sin"
        dtypes = (torch.float32, torch.float16)

        def get_decorators(self, *_):
            return [unittest.skip("skipped")] if Info.skip else []

    for Info.skip in (False, True):
        seen = []

        @instantiate_ops_tests([Info()])
        class Made(TestCase):
            def test_op(self, dtype, npu_format, op, seen=seen):
                seen.append((dtype, npu_format, op.name))

        result = run(Made)
        assert result.testsRun == 2 and len(result.skipped) == 2 * Info.skip
        assert len(seen) == 2 * (not Info.skip)
    assert hasattr(Made, "test_op_sin_float32_-1")


def test_decorators_that_generate_tests():
    class Info:
        dtypes = (torch.float64, torch.float32)
        formats = (2, 29)

        def get_decorators(self, cls, test, device, dtype, kwargs):
            return [unittest.skip(f"{cls} {test} {dtype}")] if dtype == torch.float64 else []

    @Dtypes(torch.float16)
    def test_one(self, a, b=0, **kwargs):
        return a, b, kwargs

    made = feed_data(test_one, "test_new", 1, b=2)
    assert made.__name__ == "test_new" and made(None) == (1, 2, {})
    assert gen_op_input("test_one", test_one, Info) == {"dtype": (torch.float16,), "npu_format": (2, 29)}
    consistency = gen_op_input("test_variant_consistency_eager", test_one, Info)
    assert consistency == {"dtype": {torch.float32}, "npu_format": (2, 29)}
    Info.dtypesIfNPU = (torch.int8, torch.int32)
    assert gen_op_input("test_x", lambda: None, Info)["dtype"] == Info.dtypesIfNPU

    class Made: ...

    op = Info()
    for dtype in Info.dtypes:
        gen_ops_testcase(Made, test_one, "sin", ["dtype", "a"], [dtype, 2], op)
    assert Made().test_one_sin_float32_2() == (2, 0, {"dtype": torch.float32, "op": op})
    with pytest.raises(unittest.SkipTest, match=r"Made test_one torch\.float64"):
        Made().test_one_sin_float64_2()


def test_pairs_of_tensors_are_equal():
    for item in ((np.float32, -1, (2, 3)), (np.int32, -1, [4]), (torch.bfloat16, -1, (2,))):
        cpu, npu = common_utils.create_common_tensor(item, -5, 5)
        assert npu.is_npu and cpu.shape == torch.Size(item[2]) and torch.equal(npu.cpu(), cpu)
    for dtype in (torch.bool, torch.float16, torch.float32, torch.int64, torch.uint8):
        cpu, npu = common_utils.create_dtype_tensor((50,), dtype, min_value=0, max_value=1, no_zero=True)
        assert (cpu.dtype, npu.dtype) == (dtype, dtype) and torch.equal(npu.cpu(), cpu) and (cpu != 0).all()
    for cpu, npu in common_utils.test_2args_broadcast(torch.add):
        np.testing.assert_allclose(npu, cpu)


def test_freeze_rng_state_restores_the_generators():
    for device in ("cpu", "npu"):
        torch.manual_seed(3)
        torch.npu.manual_seed(3)
        expected = torch.rand(2, device=device)
        torch.manual_seed(3)
        torch.npu.manual_seed(3)
        with common_utils.freeze_rng_state():
            torch.rand(5, device=device)
        assert torch.equal(torch.rand(2, device=device), expected)


def test_indices():
    assert list(common_utils.iter_indices(torch.ones(()))) == []
    assert list(common_utils.iter_indices(torch.ones(2))) == [0, 1]
    assert list(common_utils.iter_indices(torch.ones(2, 2))) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert common_utils.is_iterable([]) and not common_utils.is_iterable(3)


def test_tests_are_skipped_where_they_make_no_sense(monkeypatch):
    monkeypatch.setattr(torch.npu, "get_device_name", lambda device: "Ascend910B2")
    monkeypatch.setattr(torch.npu, "device_count", lambda: 4)

    class Skips(TestCase):
        world_size = 4

        @common_utils.SupportedDevices(["Ascend910B"])
        def test_runs(self): ...

        @common_utils.SupportedDevices(["Ascend910A"])
        def test_other_chip(self): ...

        @common_utils.SkipIfNoLapack()
        def test_lapack(self): ...

        @common_distributed.skipIfUnsupportMultiNPU(4)
        def test_four(self): ...

        @common_distributed.skipIfUnsupportMultiNPU(5)
        def test_five(self): ...

        @common_utils.SkipIfNotRegistered()("message")
        def test_caffe(self): ...

    result = run(Skips)
    assert result.wasSuccessful() and result.testsRun == 6
    reasons = {test._testMethodName: reason for test, reason in result.skipped}
    assert set(reasons) == {"test_other_chip", "test_five", "test_caffe"}
    assert reasons["test_other_chip"] == "only for ['Ascend910A'], but the device is Ascend910B"
    assert reasons["test_five"] == "needs 5 NPUs, but there are 4"


def test_versions_are_compared_as_numbers(monkeypatch):
    utils = type("utils", (), {"get_cann_version": staticmethod(lambda module: "8.10.RC1")})
    monkeypatch.setattr(torch.npu, "utils", utils, raising=False)
    ran = []
    common_utils.SkipIfNotGteCANNVersion("8.9.0")(ran.append)(1)
    assert ran == [1]
    with pytest.raises(unittest.SkipTest, match=r"only for CANN 8\.11\.0 or newer, but it is 8\.10\.RC1"):
        common_utils.SkipIfNotGteCANNVersion("8.11.0")(ran.append)(1)


@pytest.mark.parametrize(("devices", "backend"), [(0, "gloo"), (8, "hccl")])
def test_a_test_gets_a_process_group(tmp_path, monkeypatch, devices, backend):
    monkeypatch.setattr(torch.npu, "device_count", lambda: devices)

    class Grouped(TestCase):
        world_size, rank, file_name = 1, 0, str(tmp_path / "store")

        @common_distributed.with_comms
        def test_one(self):
            assert torch.distributed.get_backend() == backend
            value = torch.ones(2, device="npu" if backend == "hccl" else "cpu")
            torch.distributed.all_reduce(value)
            self.assertEqual(value.cpu(), torch.ones(2))

        def destroy_pg(self):
            torch.distributed.destroy_process_group()

    result = run(Grouped)
    assert result.wasSuccessful() and not result.skipped and not torch.distributed.is_initialized()
    with pytest.raises(RuntimeError, match='backend must be "hccl" or "gloo", not \'nccl\''):
        common_distributed.init_pg("nccl")
    assert common_distributed.TEST_SKIPS["multi-npu-2"] == common_distributed.TestSkip(75, "needs 2 NPUs")


def test_durations_are_kept_in_a_file(tmp_path):
    baseline = common_utils.Baseline(str(tmp_path / "durations.json"))
    assert baseline.get_baseline("one") is None
    baseline.set_baseline("one", 1.5)
    baseline.save_baseline()
    assert common_utils.Baseline(str(tmp_path / "durations.json")).get_baseline("one") == 1.5


@pytest.mark.parametrize("enabled", [True, False])
def test_durations_are_written_when_they_are_asked_for(tmp_path, monkeypatch, enabled):
    monkeypatch.setattr(common_utils, "PERF_TEST_ENABLE", enabled)
    monkeypatch.setattr(common_utils, "PerfBaseline", common_utils.Baseline(str(tmp_path / "durations.json")))
    common_utils.PerfBaseline.set_baseline("one", 1.5)
    common_utils.dump_baseline()
    assert (tmp_path / "durations.json").exists() == enabled


def test_a_test_that_takes_longer_than_before_fails(monkeypatch, tmp_path):
    from torch_npu.testing import testcase

    baseline = common_utils.Baseline(str(tmp_path / "durations.json"))
    monkeypatch.setattr(testcase, "PERF_TEST_ENABLE", True)
    monkeypatch.setattr(testcase, "PerfBaseline", baseline)
    ticks = iter([0.0, 1.0, 1.0, 3.0])
    monkeypatch.setattr(testcase.time, "perf_counter", lambda: next(ticks))

    class Timed(TestCase):
        def test_one(self): ...

    def once():
        result = unittest.TestResult()
        Timed("test_one").run(result)
        return result

    assert once().wasSuccessful()
    assert "it took 2.000 s, but 1.000 s before" in once().failures[0][1]


def test_operators_of_a_profile():
    with torch.profiler.profile() as prof:
        torch.ones(2, device="npu").sin()
    assert common_utils.check_operators_in_prof(["aten::sin"], prof, ["aten::cos"])
    assert not common_utils.check_operators_in_prof(["aten::sin", "aten::cos"], prof)
    assert not common_utils.check_operators_in_prof(["aten::sin"], prof, ["aten::ones"])


def test_samples_of_operators():
    from torch.testing._internal.common_methods_invocations import op_db

    median = next(op for op in op_db if op.name == "median")
    samples = list(invocations.sample_inputs_median_custom(median, "npu", torch.float32, False))
    assert [sample.input.shape for sample in samples[:2]] == [(2, 0), (0, 2)] and len(samples) > 4
    normal = next(op for op in op_db if op.name == "normal")
    assert len(list(invocations.sample_inputs_normal_tensor_second(normal, "npu", torch.float32, False))) == 3


def test_sleeping_is_measured():
    assert common_utils.get_cycles_per_ms() > 0


def test_a_published_test_of_an_operator_runs(python):
    program = """
    import numpy as np, torch, torch_npu
    from torch_npu.testing.testcase import TestCase, run_tests

    class TestMax(TestCase):
        def test_max(self, device="npu:0"):
            x = torch.tensor([[1, 9], [4, 3]])
            self.assertEqual(np.int64(x.numpy().max()), torch.max(x.to(device)), prec=1e-4)
            self.assertEqual(torch.max(x), torch.max(x.to(device)).to("cpu"), prec=1.e-4)

    if __name__ == "__main__":
        run_tests()
    """
    done = python(program)
    assert done.returncode == 0 and "Ran 1 test" in done.stderr, done.stderr
