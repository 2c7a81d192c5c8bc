"""The device table gives C headers, kernel prototypes, entry points and documentation."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "codegen" / "device_ops.py"

TABLE = """
aclnnAdd(Tensor self, Tensor other, Scalar alpha, Tensor! out): add.out(self, other, alpha, out) | engine add
aclnnInplaceAdds(Tensor! selfRef, Scalar other, Scalar alpha): add_.Scalar(selfRef, other, alpha)
aclnnRoll(Tensor x, int[] shifts, int[] dims, Tensor! out): roll(x, shifts, dims)
aclnnStdMean(Tensor self, int[]? dim, Tensor! stdOut, Tensor! meanOut): std_mean.correction(self, dim, none, false)
aclnnNonzero(Tensor self, Tensor! out): nonzero(self) | sync
aclnnFloor(Tensor self, Tensor other, Tensor! out): div.out_mode(self, other, "floor", out) | dtypes real
aclnnX(Tensor? t, Tensor[] l, Scalar? s, int[]? i, float[] f, bool[] b, str m, dtype d, uint64 u, float g, Tensor! o): kernel mine
aclnnY(Tensor a, int8 cubeMathType, Tensor! out): kernel other(a, out) | widened
aclnnMm(Tensor self, Tensor mat2, Tensor! out, int8 cubeMathType): mm.out(self, mat2, out) | widened native by self?, out
"""


def generate(*arguments):
    return subprocess.run([sys.executable, str(GENERATOR), *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    (folder / "aclnn.yaml").write_text(TABLE)
    result = generate("--table", folder / "aclnn.yaml", "--out", folder)
    assert result.returncode == 0, result.stderr
    return folder


def entries(folder):
    return "".join(path.read_text() for path in sorted((folder / "src").glob("opapi_*.cpp")))


def test_headers_are_c_and_in_place_forms_share_one(generated, tmp_path):
    headers = sorted(path.name for path in (generated / "include" / "aclnnop").iterdir())
    assert "aclnn_adds.h" in headers and "aclnn_std_mean.h" in headers and "aclnn_inplace_adds.h" not in headers
    abi = subprocess.run(
        [sys.executable, str(ROOT / "codegen" / "abi.py"), "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert abi.returncode == 0, abi.stderr
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "aclnnop/{name}"\n' for name in headers))
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{tmp_path}/include"]
    result = subprocess.run([*command, f"-I{generated}/include", str(source)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_header_takes_arguments_in_the_order_of_the_table(generated):
    text = " ".join((generated / "include" / "aclnnop" / "aclnn_x.h").read_text().split())
    assert (
        "aclnnXGetWorkspaceSize(const aclTensor *t, const aclTensorList *l, const aclScalar *s, const aclIntArray *i, "
        "const aclFloatArray *f, const aclBoolArray *b, const char *m, aclDataType d, uint64_t u, float g, aclTensor *o, "
        "uint64_t *workspaceSize, aclOpExecutor **executor);"
    ) in text
    assert "aclnnX(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);" in text


def test_prototypes_of_own_kernels(generated):
    text = " ".join((generated / "src" / "kernels.h").read_text().split())
    assert (
        "void mine(const std::optional<at::Tensor>& t, at::TensorList l, const std::optional<at::Scalar>& s, "
        "at::OptionalIntArrayRef i, at::ArrayRef<double> f, at::IntArrayRef b, std::string_view m, at::ScalarType d, uint64_t u, "
        "double g, at::Tensor& o);"
    ) in text
    assert "void other(const at::Tensor& a, at::Tensor& out);" in text
    assert "bool try_add(const TensorView* tensors, int tensor_count, const at::Scalar* scalars);" in text


@pytest.mark.parametrize(
    "call",
    [
        "at::cpu::add_outf(a.tensor(0), a.tensor(1), a.scalar(0), a.tensor(2));",
        "at::meta::add_outf(a.tensor(0), a.tensor(1), a.scalar(0), a.tensor(2));",
        "a.tensor(0).add_(a.scalar(0), a.scalar(1));",
        "const auto result = at::cpu::roll(a.tensor(0), a.integers(0), a.integers(1));\n  a.store(1, result);",
        "a.store(1, std::get<0>(result));\n  a.store(2, std::get<1>(result));",
        'at::cpu::div_outf(a.tensor(0), a.tensor(1), "floor", a.tensor(2));',
        "kernels::other(a.tensor(0), a.tensor(1));",
        "kernels::mine(a.optional_tensor(0), a.tensors(0), a.optional_scalar(0), a.optional_integers(1), a.reals(2), "
        "a.integers(3), a.text(0), a.dtype(1), uint64_t(a.integer(2)), a.real(3), a.tensor(1));",
    ],
)
def test_kernel_calls(generated, call):
    assert "".join(call.split()) in "".join(entries(generated).split())


def test_operations_carry_what_phase_one_checks(generated):
    text = entries(generated)
    assert text.count(".sync = true") == 1
    assert ".engine = engine::try_add," in text
    assert "uint64_t(1) << ACL_BF16" in text
    assert ".meta = meta_aclnnAdd," in text and "meta_aclnnRoll" not in text


def test_only_an_out_kernel_needs_outputs_in_float32(generated):
    text = entries(generated)
    assert ".unless_native = true, .mixed = false, .outputs = true, .parts = 0x5, .broadcasts = 0x1" in text
    assert ".unless_native = false, .mixed = false, .outputs = false, .parts = 0x0, .broadcasts = 0x0" in text
    assert text.count(".widening = &widening_") == 2


def test_files_stay_untouched_when_nothing_changes(generated):
    before = {path: path.stat().st_mtime_ns for path in (generated / "src").iterdir()}
    assert generate("--table", generated / "aclnn.yaml", "--out", generated).returncode == 0
    assert before == {path: path.stat().st_mtime_ns for path in (generated / "src").iterdir()}


def test_mistake_is_one_sentence(tmp_path):
    table = tmp_path / "aclnn.yaml"
    table.write_text("aclnnX(Tensor self, Tensor! out): neg.out(out)\n")
    result = generate("--table", table, "--out", tmp_path)
    assert result.returncode == 1 and not (tmp_path / "src").exists()
    assert result.stderr.count("\n") == 1 and "row `aclnnX`" in result.stderr


def test_documentation_is_checked(generated, tmp_path):
    docs = tmp_path / "aclnn.md"
    assert generate("--table", generated / "aclnn.yaml", "--docs", docs).returncode == 0
    assert "9 functions in libopapi.so" in docs.read_text()
    assert generate("--table", generated / "aclnn.yaml", "--check", docs).returncode == 0
    docs.write_text("old")
    result = generate("--table", generated / "aclnn.yaml", "--check", docs)
    assert result.returncode == 1 and "out of step" in result.stderr


def test_the_published_table_is_current():
    result = generate("--check", ROOT / "docs" / "aclnn.md")
    assert result.returncode == 0, result.stderr
