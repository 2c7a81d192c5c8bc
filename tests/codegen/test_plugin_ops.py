"""A row of ops.yaml becomes every form of its operator. A wrong row stops the generator with one sentence."""

from pathlib import Path

import plugin_ops
import pytest
import registered

ROOT = Path(__file__).resolve().parents[2]

DEVICE = """\
aclnnSoftLinalgInvEx(Tensor self, Tensor! inverse, Tensor! info): linalg_inv_ex.inverse(self, false, inverse, info)
aclnnAdd(Tensor self, Tensor other, Scalar alpha, Tensor! out): add.out(self, other, alpha, out)
aclnnAdds(Tensor self, Scalar other, Scalar alpha, Tensor! out): add.Scalar_out(self, other, alpha, out)
aclnnInplaceAdd(Tensor! selfRef, Tensor other, Scalar alpha): add_.Tensor(selfRef, other, alpha)
aclnnMm(Tensor self, Tensor mat2, Tensor! out, int8 cubeMathType): mm.out(self, mat2, out)
aclnnRelu(Tensor self, Tensor! out): clamp_min.out(self, 0, out)
aclnnReduceSum(Tensor self, int[] dims, bool keep, dtype dtype, Tensor! out): sum.IntList_out(self, dims, keep, dtype, out)
aclnnSort(Tensor self, bool stable, int dim, bool down, Tensor! v, Tensor! i): sort.values_stable(self, stable, dim, down, v, i)
aclnnNonzero(Tensor self, Tensor! out): nonzero(self) | sync
aclnnForeachAddListV2(Tensor[] x1, Tensor[] x2, Scalar alpha, Tensor![] out): kernel foreach_add_list
aclnnInplaceZero(Tensor! selfRef): zero_(selfRef)
aclnnRmsNorm(Tensor x, Tensor gamma, double epsilon, Tensor! yOut, Tensor! rstdOut): kernel rms_norm
aclnnPdist(Tensor self, float p, Tensor! out): _pdist_forward(self, p)
aclnnSoftPdist(Tensor self, double p, Tensor! out): _pdist_forward(self, p)
"""
ADD = "call: aclnnAdd(self, other, alpha, out)"


def run(folder, plugin, device=DEVICE, families="", fallbacks=None):
    """The generator's error message, or None. Without `fallbacks`, the text of fallbacks.yaml, any operator may fall back."""
    (folder / "aclnn.yaml").write_text(device)
    (folder / "ops.yaml").write_text(plugin)
    (folder / "families" / "ops").mkdir(parents=True, exist_ok=True)
    (folder / "families" / "ops" / "hand.cpp").write_text(families)
    tables = ("--device-table", folder / "aclnn.yaml", "--plugin-table", folder / "ops.yaml", "--families", folder / "families")
    arguments = ["--out", folder / "out"]
    if fallbacks is None:
        arguments += ["--any-fallback"]
    else:
        (folder / "families" / "fallbacks.yaml").write_text(fallbacks)
    try:
        plugin_ops.main([str(part) for part in (*tables, *arguments)])
    except SystemExit as stop:
        return stop.code
    return None


@pytest.fixture
def generate(tmp_path):
    def text(plugin):
        message = run(tmp_path, plugin)
        assert message is None
        return "\n".join(path.read_text() for path in sorted((tmp_path / "out").rglob("*.cpp")))

    return text


def function(text, signature):
    start = text.index(signature)
    return text[start : text.index("\n}", start)]


def test_a_structured_row_gives_all_three_forms(generate):
    text = generate(f"add.out:\n  {ADD}\n")
    for form in ("add.Tensor", "add_.Tensor", "add.out"):
        assert f'm.impl("{form}"' in text
    assert "Functional<at::meta::structured_add_Tensor, 1> op;" in function(text, "at::Tensor add_Tensor(")
    assert "Form::kInplace> op({self});" in function(text, "add__Tensor(")
    assert "call::aclnnAdd(self, other, alpha, op.output(0));" in function(text, "add_out(")


def test_the_inplace_call_serves_the_inplace_form_only(generate):
    text = generate(f"add.out:\n  {ADD}\n  inplace: aclnnInplaceAdd(self, other, alpha)\n")
    assert "call::aclnnInplaceAdd(self, other, alpha);" in function(text, "add__Tensor(")
    assert "aclnnInplaceAdd" not in function(text, "add_out(")


def test_a_host_scalar_has_its_own_call(generate):
    text = generate(f'add.out:\n  {ADD}\n  scalar: {{other: "aclnnAdds(self, other, alpha, out)"}}\n')
    body = function(text, "at::Tensor add_Tensor(")
    assert "if (is_host_scalar(other, self)) {\n    call::aclnnAdds(self, host_scalar(other), alpha, op.output(0));" in body


@pytest.mark.parametrize(("dtypes", "test"), [("float64", "is_any_double(self) && "), ("any", "")])
def test_a_number_that_a_float_would_round_has_its_own_call(generate, dtypes, test):
    row = f'{{call: "aclnnPdist(self, p, out)", exact: {{{dtypes}: "aclnnSoftPdist(self, p, out)"}}, infer: pdist}}'
    body = function(generate(f"_pdist_forward: {row}\n"), "at::Tensor _pdist_forward(")
    assert (
        f'if ({test}rounds_to_float({{p}}) && is_offered("aclnnSoftPdist")) {{\n    call::aclnnSoftPdist(self, p, out);' in body
    )
    assert "} else {\n    call::aclnnPdist(self, static_cast<float>(p), out);" in body


def test_the_fast_path_comes_before_the_shape_function(generate):
    text = generate(f"add.out:\n  {ADD}\n  fast: promote\n")
    body = function(text, "at::Tensor add_Tensor(")
    assert body.index("fast::applies<fast::Rule::kPromote>(self, other) && fast::fit(self, alpha)") < body.index("op.meta(")
    assert "fast::can_write<fast::Rule::kPromote>(self, self, other)" in function(text, "add__Tensor(")


def test_tensors_of_a_checked_operator_must_share_a_device(generate):
    text = generate('mm.out: {call: "aclnnMm(self, mat2, out, cube_math_type)"}\n')
    body = function(text, "at::Tensor mm(")
    assert 'check_and_update_common_device(common_device, mat2, "wrapper_NPU_mm", "mat2");' in body
    assert "call::aclnnMm(self, mat2, op.output(0), cube_math_type());" in body


def test_a_plain_row_gives_the_forms_that_aten_does_not_compose(generate):
    text = generate('relu: {call: "aclnnRelu(self, out)", infer: like_self}\n')
    assert "auto [out] = allocate(infer::like_self(self));" in function(text, "at::Tensor relu(")
    assert "call::aclnnRelu(self, self);" in function(text, "relu_(")
    assert 'm.impl("relu.out"' not in text


def test_a_missing_value_gets_its_default(generate):
    row = 'sum.IntList_out: {call: "aclnnReduceSum(self, dim or [], keepdim, dtype_of(out), out)", unused: dtype}\n'
    text = generate(row + 'sort.values_stable: {call: "aclnnSort(self, stable or false, dim, descending, values, indices)"}\n')
    assert "dim.value_or(at::IntArrayRef{}), keepdim, op.output(0).scalar_type()" in text
    assert "stable.value_or(false)" in text
    assert "return {std::move(op.take(0)), std::move(op.take(1))};" in text


def test_error_codes_are_looked_at_where_the_caller_asks_for_it(generate):
    row = '{call: "aclnnSoftLinalgInvEx(A, inverse, info)", unused: check_errors, errors: linalg.inv_ex}'
    text = generate(f"linalg_inv_ex.inverse: {row}\n")
    check = 'if (check_errors) at::_linalg_check_errors(op.output(1), "linalg.inv_ex", A.dim() == 2);'
    for form in ("linalg_inv_ex(", "linalg_inv_ex_inverse("):
        body = function(text, form)
        assert body.index("call::aclnnSoftLinalgInvEx(A, op.output(0), op.output(1));") < body.index(check)


def test_a_list_takes_one_launch_or_atens_loop(generate):
    text = generate('_foreach_add.List: {call: "aclnnForeachAddListV2(self, other, alpha, out)", foreach: list}\n')
    body = function(text, "_foreach_add__List(")
    assert "at::native::foreach_tensor_add_list_kernel_slow_(self, other, alpha)" in body
    assert "call::aclnnForeachAddListV2(self, other, alpha, self);" in body
    assert "|| overlaps_in_part(self, {other})) return" in body
    assert "overlaps_in_part" not in function(text, "_foreach_add_List(")


def test_an_operator_of_our_own_is_declared_and_has_a_shape_function(generate):
    schema = "npu::npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)"
    text = generate(f'"{schema}": {{call: "aclnnRmsNorm(self, gamma, epsilon, out, rstd)", infer: rms_norm}}\n')
    assert 'm.def("npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)");' in text
    assert "TORCH_LIBRARY_IMPL(npu, Meta, m)" in text


def test_every_device_function_has_a_typed_call(generate):
    text = generate("")
    assert (
        "void aclnnAdd(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, const at::Tensor& out) {" in text
    )
    assert "a_out.give_shape_to(out);" in function(text, "void aclnnNonzero(")
    assert "if (C10_UNLIKELY(out.numel() == 0)) return;" in function(text, "void aclnnRelu(")


def test_a_tensor_that_a_flag_makes_an_output_is_else_read(tmp_path):
    row = "aclnnX(Tensor x, Tensor!? mean, bool training, Tensor! out): kernel x | reads mean unless training\n"
    assert run(tmp_path, "", DEVICE + row) is None
    text = "\n".join(path.read_text() for path in (tmp_path / "out").rglob("calls_*.cpp"))
    assert "TensorArg(x), StateArg(mean, training), PlainArg<bool>(training), OutputArg(out)" in text


@pytest.mark.parametrize(
    ("plugin", "sentence"),
    [
        ('add.Tensor: {call: "aclnnAdd(self, other, alpha, out)", infer: x}\n', "named by its out= overload, which is `add.out`"),
        ('relu: {call: "aclnnRelu(self, out)"}\n', "`infer` must name the function"),
        ('relu: {call: "aclnnRelu(self, out)", infer: like_self, fast: same}\n', "`fast` is for operators with a shape function"),
        ('add.out: {call: "aclnnAdd(self, alpha, other, out)"}\n', "parameter `other` of `aclnnAdd` is Tensor"),
        ('add.out: {call: "aclnnAdds(self, 1, alpha, out)"}\n', "argument `other` does not reach `aclnnAdds`"),
        ('mm.out: {call: "aclnnMn(self, mat2, out)"}\n', "the device table has no `aclnnMn`"),
        (
            '_pdist_forward: {call: "aclnnPdist(self, p, out)", exact: {half: "aclnnSoftPdist(self, p, out)"}, infer: pdist}\n',
            "`exact` is for float64 or any",
        ),
        (
            '_pdist_forward: {call: "aclnnSoftPdist(self, p, o)", exact: {any: "aclnnSoftPdist(self, p, o)"}, infer: pdist}\n',
            "takes no number as a float",
        ),
        (
            'sort.values_stable: {call: "aclnnSort(self, stable, dim, descending, values, indices)"}\n',
            "parameter `stable` of `aclnnSort`",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, plugin, sentence):
    message = run(tmp_path, plugin)
    assert message.startswith("error: ")
    assert sentence in message
    assert len(message.splitlines()) == 1


def test_one_overload_is_registered_once(tmp_path):
    families = 'TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {\n  m.impl("add.Tensor", TORCH_FN(add));\n}\n'
    message = run(tmp_path, f"add.out:\n  {ADD}\n", families=families)
    assert (
        message
        == f"error: {tmp_path}/families/ops/hand.cpp, line 2: `add.Tensor` is registered by hand and by a row of ops.yaml."
    )


def test_one_overload_is_given_by_one_row(tmp_path):
    row = '{call: "aclnnRelu(self, out)", infer: like_self}'
    message = run(tmp_path, f"relu: {row}\nrelu_: {{call: 'aclnnRelu(self, self)'}}\n")
    assert message.endswith("ops.yaml, line 2, row `relu_`: it gives `relu_`, which row `relu` in line 1 gives already.")


RELU = 'relu: {call: "aclnnRelu(self, out)", infer: like_self}\n'


def expected_fallbacks():
    """The overloads that fall back when only relu and relu_ are native."""
    return sorted(registered.cpu_only({"relu", "relu_"}))


def listed(names, reason="not yet"):
    return f'"{reason}": [{", ".join(names)}]\n'


def test_an_exact_list_of_fallbacks_is_accepted(tmp_path):
    assert run(tmp_path, RELU, fallbacks=listed(expected_fallbacks())) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda names: [name for name in names if name != "mm.out"], "`mm.out` falls back to CPU, but no reason is given"),
        (lambda names: [*names, "relu"], "`relu` is native, it does not fall back"),
        (lambda names: [*names, "relu.typo"], "`relu.typo` is unknown to ATen"),
        (lambda names: [*names, "add.Tensor"], "`add.Tensor` has no CPU kernel of its own to fall back to"),
        (lambda names: [*names, names[0]], "is listed twice"),
    ],
)
def test_a_wrong_list_of_fallbacks_is_one_sentence(tmp_path, change, sentence):
    message = run(tmp_path, RELU, fallbacks=listed(change(expected_fallbacks())))
    assert "fallbacks.yaml, line 1, row `not yet`" in message or "`mm.out` falls back" in message
    assert sentence in message
    assert len(message.splitlines()) == 1


def test_an_overload_that_only_some_versions_have_is_marked(tmp_path):
    assert run(tmp_path, RELU, fallbacks=listed([*expected_fallbacks(), '"relu.later?"'])) is None
