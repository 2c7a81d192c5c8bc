"""Settings at run time: torch.npu.set_option and its relatives, precision, limits of cores, determinism."""

import pytest
import torch
from torch_npu.npu import npu_config

GOOD = {
    "ACL_PRECISION_MODE": ["allow_fp32_to_fp16", "must_keep_origin_dtype"],
    "ACL_OP_SELECT_IMPL_MODE": ["high_performance", "high_precision"],
    "ACL_OPTYPELIST_FOR_IMPLMODE": ["Pooling", "SoftmaxV2", "LRN", "ROIAlign"],
    "ACL_AICORE_NUM": [1, "32"],
    "ACL_OP_DEBUG_LEVEL": [1, "2", 3, 4, 0],
    "ACL_DEBUG_DIR": ["."],
    "ACL_OP_COMPILER_CACHE_MODE": ["enable", "force", "disable"],
    "ACL_OP_COMPILER_CACHE_DIR": ["."],
    "ACL_OP_DEBUG_OPTION": ["oom"],
    "jitCompile": ["enable", "disable"],
    "NPU_FUZZY_COMPILE_BLACKLIST": ["Add,Mul"],
    "FORCE_ACLNN_OP_LIST": ["Add"],
    "OP_HOOK_ENABLE": ["enable", "disable"],
    "STRONG_CONSISTENCY": ["enable", "disable"],
    "MM_BMM_ND_ENABLE": ["disable", "enable"],
    "ALLOW_INTERNAL_FORMAT": ["enable", "disable"],
    "ALLOW_MATMUL_HF32": ["enable", "disable"],
    "ALLOW_CONV_HF32": ["disable", "enable"],
    "CUBE_MATH_TYPE": [3, 0],
}
BAD = [
    ("ACL_PRECISION_MODE", "fp16", "allow_fp32_to_fp16, must_keep_origin_dtype"),
    ("ACL_OP_SELECT_IMPL_MODE", "fast", "high_precision, high_performance"),
    ("ACL_OPTYPELIST_FOR_IMPLMODE", "Pooling,LRN", "one, and only one, of Pooling"),
    ("ACL_OPTYPELIST_FOR_IMPLMODE", "Conv2D", "SoftmaxV2"),
    ("ACL_AICORE_NUM", 33, "from 1 to 32"),
    ("ACL_AICORE_NUM", 0, "from 1 to 32"),
    ("ACL_OP_DEBUG_LEVEL", 5, "0, 1, 2, 3, 4"),
    ("ACL_DEBUG_DIR", "/no/such/folder", "a folder that exists"),
    ("ACL_OP_COMPILER_CACHE_MODE", "on", "enable, disable, force"),
    ("ACL_OP_COMPILER_CACHE_DIR", "/no/such/folder", "a folder that exists"),
    ("jitCompile", True, "enable or disable"),
    ("CUBE_MATH_TYPE", 7, "0, 1, 2, 3, 4"),
]


@pytest.fixture(autouse=True)
def options_stay():
    before = dict(npu_config._values)
    yield
    npu_config._values.clear()
    npu_config._values.update(before)
    torch.npu.matmul.allow_hf32 = False
    torch.npu.conv.allow_hf32 = True


DUMPS = {"mdldumpswitch", "mdldumpconfigpath"}  # tested by tests/accuracy/test_acl_dump.py


@pytest.mark.parametrize("name", sorted(set(npu_config._OPTIONS) - DUMPS))
def test_an_option_takes_its_values(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in GOOD[name]:
        torch.npu.set_option({name: value})
        assert npu_config._get_option(name) == str(value)
    assert torch.ones(2, device="npu").sum().item() == 2
    assert not any(tmp_path.iterdir())  # nothing is compiled, so no kernel_meta


@pytest.mark.parametrize(("name", "value", "words"), BAD)
def test_a_wrong_value_is_refused_and_changes_nothing(name, value, words):
    before = dict(npu_config._values)
    with pytest.raises(ValueError, match=f"{name} must be .*{words}.*but got {value!r}"):
        torch.npu.set_option({"ACL_OP_DEBUG_LEVEL": 4, name: value})
    assert npu_config._values == before


def test_an_unknown_option_is_refused_with_the_list_of_options():
    with pytest.raises(ValueError, match=r"no option 'ACL_SPEED'; there are ACL_PRECISION_MODE, .*CUBE_MATH_TYPE"):
        torch.npu.set_option({"ACL_SPEED": 1})


@pytest.mark.parametrize("wrong", [[], "ACL_OP_DEBUG_LEVEL", None, [("ACL_OP_DEBUG_LEVEL", 1)]])
def test_options_are_a_dict(wrong):
    with pytest.raises(TypeError, match="options are a dict"):
        torch.npu.set_option(wrong)


def test_set_option_does_not_change_its_argument():
    given = {"ACL_OP_DEBUG_LEVEL": 1}
    torch.npu.set_option(given)
    assert given == {"ACL_OP_DEBUG_LEVEL": 1}


def test_compile_mode_is_remembered():
    assert torch.npu.is_jit_compile_false()
    torch.npu.set_compile_mode(jit_compile=True)
    assert not torch.npu.is_jit_compile_false()
    torch.npu.set_compile_mode()
    assert torch.npu.is_jit_compile_false()
    with pytest.raises(TypeError, match="jit_compile must be True or False"):
        torch.npu.set_compile_mode("no")


def test_the_plain_format_is_the_default():
    assert torch.npu.get_mm_bmm_format_nd()
    torch.npu.set_mm_bmm_format_nd(False)
    assert not torch.npu.get_mm_bmm_format_nd()
    torch.npu.set_option({"MM_BMM_ND_ENABLE": "enable"})
    assert torch.npu.get_mm_bmm_format_nd()


def test_set_aoe_creates_the_folder(tmp_path):
    torch.npu.set_aoe(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(TypeError):
        torch.npu.set_aoe(3)


def test_internal_formats_are_off_until_allowed():
    assert not torch.npu.config.allow_internal_format
    torch.npu.config.allow_internal_format = True
    assert torch.npu.config.allow_internal_format
    with pytest.raises(TypeError, match="allow_internal_format must be True or False"):
        torch.npu.config.allow_internal_format = "yes"
    with pytest.raises(AttributeError):
        torch.npu.config.allow_internal_formats = False


def test_hf32_is_allowed_by_default_for_convolutions_only():
    assert torch.npu.matmul.allow_hf32 is False
    assert torch.npu.matmul.cube_math_type == torch.npu.CubeMathType.KEEP_DTYPE
    assert torch.npu.conv.allow_hf32 is True
    assert torch.npu.aclnn.allow_hf32 is True


def test_allow_hf32_and_cube_math_type_of_matmul_agree():
    torch.npu.matmul.allow_hf32 = True
    assert torch.npu.matmul.cube_math_type == torch.npu.CubeMathType.ALLOW_FP32_DOWN_PRECISION
    torch.npu.matmul.cube_math_type = torch.npu.CubeMathType.USE_HF32
    assert torch.npu.matmul.allow_hf32
    torch.npu.matmul.cube_math_type = torch.npu.CubeMathType.USE_FP16
    assert not torch.npu.matmul.allow_hf32
    assert torch.npu.conv.allow_hf32
    with pytest.raises(TypeError, match="CubeMathType"):
        torch.npu.matmul.cube_math_type = 1
    with pytest.raises(TypeError, match="allow_hf32 must be True or False"):
        torch.npu.matmul.allow_hf32 = 1


def test_allow_hf32_and_cube_math_type_of_conv_agree():
    torch.npu.aclnn.allow_hf32 = False
    assert not torch.npu.conv.allow_hf32
    torch.npu.conv.allow_hf32 = True
    assert torch.npu.aclnn.allow_hf32


def test_softnpu_computes_in_full_precision_in_every_math_mode():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(32, 32, generator=generator) for _ in range(2))
    for math in torch.npu.CubeMathType:
        torch.npu.matmul.cube_math_type = math
        torch.testing.assert_close((a.npu() @ b.npu()).cpu(), a @ b)
    image, kernel = a.view(1, 1, 32, 32), b[:3, :3].reshape(1, 1, 3, 3)
    for allowed in (False, True):
        torch.npu.conv.allow_hf32 = allowed
        result = torch.nn.functional.conv2d(image.npu(), kernel.npu())
        torch.testing.assert_close(result.cpu(), torch.nn.functional.conv2d(image, kernel))


def test_a_compatible_implementation_is_remembered():
    assert not torch.npu.are_compatible_impl_enabled()
    torch.npu.use_compatible_impl(True)
    try:
        assert torch.npu.are_compatible_impl_enabled()
    finally:
        torch.npu.use_compatible_impl(False)


def test_a_time_limit_is_a_number_of_milliseconds():
    torch.npu.set_op_timeout_ms(60_000)
    assert torch.ones(3, device="npu").sum().item() == 3
    for wrong in (0, -1, 1.5, "1", True):
        with pytest.raises(ValueError, match="positive number of milliseconds"):
            torch.npu.set_op_timeout_ms(wrong)


def test_a_stream_has_limits_of_its_own():
    stream, other = torch.npu.Stream(), torch.npu.Stream()
    properties = torch.npu.get_device_properties()
    whole = {"cube_core_num": properties.cube_core_num, "vector_core_num": properties.vector_core_num}
    assert torch.npu.get_stream_limit(stream) == whole
    torch.npu.set_stream_limit(stream, cube_num=2)
    torch.npu.set_stream_limit(stream, vector_num=3)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 2, "vector_core_num": 3}
    assert torch.npu.get_stream_limit(other) == whole
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream) == whole


def test_limits_are_checked():
    stream = torch.npu.Stream()
    most = torch.npu.get_device_properties().cube_core_num
    for wrong in (0, -2, most + 1):
        with pytest.raises(ValueError, match=f"cube_num must be -1 or a number from 1 to {most}"):
            torch.npu.set_stream_limit(stream, wrong)
    with pytest.raises(TypeError, match="vector_num must be an int"):
        torch.npu.set_stream_limit(stream, 1, "2")
    for call in (torch.npu.get_stream_limit, torch.npu.reset_stream_limit, torch.npu.set_stream_limit):
        with pytest.raises(TypeError, match=r"a torch.npu.Stream is needed"):
            call(None)
    with pytest.raises(TypeError, match="the device must be an int"):
        torch.npu.get_device_limit("npu:0")
    with pytest.raises(ValueError, match="ASCEND_RT_VISIBLE_DEVICES"):
        torch.npu.get_device_limit(99)


def test_the_limits_of_a_device_are_set_once(child):
    done = child(
        """
        import torch
        try:
            torch.npu.set_device_limit(0, 1000)
        except ValueError as error:
            print("cube_num" in str(error))
        torch.npu.set_device_limit(0, cube_num=4, vector_num=5)
        print(torch.npu.get_device_limit(0))
        print(torch.ones(4, 4, device="npu").mm(torch.ones(4, 4, device="npu")).sum().item())
        try:
            torch.npu.set_device_limit(0, 5, 5)
        except RuntimeError as error:
            print("once" in str(error))
        """
    )
    assert done.stdout.splitlines() == ["True", "{'cube_core_num': 4, 'vector_core_num': 5}", "64.0", "True"], done.stderr


@pytest.fixture
def deterministic():
    yield
    torch.use_deterministic_algorithms(False)


def test_deterministic_levels_set_torch_deterministic_algorithms(deterministic):
    for level in (1, 0, 2, 3, 0):
        torch.npu.set_deterministic_level(level)
        assert torch.are_deterministic_algorithms_enabled() == (level > 0)
        assert torch.npu.deterministic._get_deterministic_level() == level
    for wrong in (4, -1, "1", None, True):
        with pytest.raises(ValueError, match="0, 1, 2 or 3"):
            torch.npu.set_deterministic_level(wrong)


def test_a_part_of_a_network_is_deterministic_in_forward_and_backward(deterministic):
    seen = []

    class Spy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, name):
            ctx.name = name
            seen.append((name, torch.are_deterministic_algorithms_enabled()))
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append((f"{ctx.name} back", torch.are_deterministic_algorithms_enabled()))
            return gradient * 2, None

    x = torch.ones(2, device="npu", requires_grad=True)
    y = Spy.apply(x, "before")
    y = torch.npu.enable_deterministic_with_backward(y)
    y = Spy.apply(y, "inside")
    y = torch.npu.disable_deterministic_with_backward(y)
    y = Spy.apply(y, "after")
    y.sum().backward()
    assert dict(seen) == {
        "before": False,
        "inside": True,
        "after": False,
        "after back": False,
        "inside back": True,
        "before back": False,
    }
    assert x.grad.tolist() == [8, 8]


def test_attention_switches_set_those_of_torch():
    before = torch.backends.cuda.flash_sdp_enabled()
    try:
        torch.npu.backends.enable_flash_sdp(False)
        assert not torch.backends.cuda.flash_sdp_enabled()
        with torch.npu.sdp_kernel(enable_flash=True, enable_math=False):
            assert torch.npu.flash_sdp_enabled()
            assert not torch.npu.math_sdp_enabled()
        assert not torch.npu.flash_sdp_enabled()
        assert torch.npu.math_sdp_enabled()
    finally:
        torch.npu.enable_flash_sdp(before)
