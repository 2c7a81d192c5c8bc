#include "aten/machinery/outputs.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/TypeProperties.h>

#include "aten/machinery/structured.h"

namespace torch_npu {

Output like(const at::Tensor& tensor, at::ScalarType dtype) {
  Output output = sized(tensor.sizes(), tensor.options().dtype(dtype));
  if (tensor.is_contiguous()) return output;
  if (tensor.is_non_overlapping_and_dense()) {
    output.strides = Sizes(tensor.strides());
  } else {
    output.strides = Sizes(at::infer_dense_strides(tensor.sizes(), tensor.strides()));
  }
  return output;
}

Output formatted_like(const at::Tensor& tensor) {
  Output output = sized(tensor.sizes(), tensor.options());
  output.options = output.options.memory_format(tensor.suggest_memory_format());
  return output;
}

Output broadcast(std::initializer_list<std::reference_wrapper<const at::Tensor>> operands, at::ScalarType dtype) {
  const at::Tensor& first = *operands.begin();
  c10::Device device = first.device();
  bool alike = true;
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).allow_cpu_scalars(true).add_owned_output(at::Tensor());
  for (const at::Tensor& operand : operands) {
    alike = alike && operand.is_contiguous() && operand.device() == device && operand.sizes() == first.sizes();
    config.add_const_input(operand);
  }
  if (alike) {
    Output output = sized(first.sizes(), first.options().dtype(dtype));
    output.casts = true;
    return output;
  }
  for (const at::Tensor& operand : operands) {
    if (!operand.is_cpu()) device = operand.device();
  }
  Functional<at::TensorIteratorBase, 1> iterator;
  iterator.build(config.declare_static_dtype_and_device(dtype, device));
  const at::Tensor& made = iterator.output(0);
  return {.sizes = Sizes(made.sizes()), .strides = Sizes(made.strides()), .options = made.options(), .casts = true, .made = made};
}

at::Tensor prepare_output(const at::Tensor& given, const Output& output) {
  at::assert_no_internal_overlap(given);  // before it is resized
  for (const at::Tensor& other : output.apart) at::assert_no_overlap(given, other);
  if (!output.casts || given.dtype() == output.options.dtype()) {
    resize_output(given, output.sizes, output.strides, output.options);
    return {};
  }
  const at::ScalarType from = c10::typeMetaToScalarType(output.options.dtype());
  TORCH_CHECK(c10::canCast(from, given.scalar_type()), "result type ", from, " can't be cast to the desired output type ",
              given.scalar_type());
  resize_output(given, output.sizes, output.strides, output.options.dtype(given.dtype()));
  return output.made.defined() ? output.made : empty_output(output.sizes, output.strides, output.options);
}

}  // namespace torch_npu
