// Lists the tensors of a call, for dumps and for the fault rule `wrong` (runtime/operators.h).
#include "ops/calls/executor.h"

namespace softnpu::ops {
namespace {

// The dense strides of an output whose shape the kernel decided.
c10::SmallVector<int64_t, 8> dense_strides(at::IntArrayRef sizes) {
  c10::SmallVector<int64_t, 8> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

}  // namespace

void describe_task(const void* payload, SoftnpuTensorVisitor visitor, void* context) {
  const Executor& executor = **static_cast<Executor* const*>(payload);
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t number) {
    const TensorView& view = executor.views[number];
    if (view.dtype == ACL_DT_UNDEFINED) return;
    const int32_t format = executor.places[number].format;
    const bool is_read = !parameter.written || parameter.is_read();
    SoftnpuOperatorTensor tensor{
        .data = view.data,
        .sizes = view.sizes,
        .strides = view.strides,
        .ndim = view.ndim,
        .dtype = view.dtype,
        .format = format >= 0 ? format : ACL_FORMAT_ND,
        .bytes = uint32_t(item_size_of(view.dtype)),
        .flags = (is_read ? uint32_t{SOFTNPU_TENSOR_READ} : 0) | (parameter.written ? uint32_t{SOFTNPU_TENSOR_WRITTEN} : 0)};
    const bool is_decided = parameter.written && !executor.result_sizes.empty();
    if (!is_decided) return visitor(context, &tensor);
    const auto& sizes = executor.result_sizes[number];
    const auto strides = dense_strides(sizes);
    tensor.sizes = sizes.data();
    tensor.strides = strides.data();
    tensor.ndim = int32_t(sizes.size());
    visitor(context, &tensor);
  });
}

}  // namespace softnpu::ops
