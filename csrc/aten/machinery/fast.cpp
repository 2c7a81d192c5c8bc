#include "aten/machinery/fast.h"

#include <ATen/ops/_local_scalar_dense.h>

namespace torch_npu {

at::Scalar host_scalar(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return *static_cast<const double*>(data);
    case at::kLong:
      return *static_cast<const int64_t*>(data);
    case at::kFloat:
      return *static_cast<const float*>(data);
    case at::kBool:
      return *static_cast<const bool*>(data);
    default:
      return at::_local_scalar_dense(tensor);
  }
}

}  // namespace torch_npu
