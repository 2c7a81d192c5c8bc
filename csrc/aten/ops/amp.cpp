// Loss scaling. On a device that saturates, an overflow leaves no infinity in the gradients. There the overflow flags of all
// devices in use count too, from one update of the scale to the next. No call waits for a flag.
#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logical_or.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "core/overflow.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

// Throws, in PyTorch's words, unless all tensors are on one device.
template <class... Tensors>
void check_one_device(const char* name, const Tensors&... tensors) {
  std::optional<c10::Device> device;
  (c10::impl::check_and_update_common_device(device, tensors, name, "argument"), ...);
}

at::Tensor overflow_status() {
  at::Tensor status = at::empty({kOverflowStatusBytes}, at::TensorOptions(at::kChar).device(npu_device(current_device())));
  read_overflow_status(status.mutable_data_ptr());
  return status;
}

// Whether a device in use has met an overflow, as a tensor on `goal`. All are asked: a model may be spread over several.
at::Tensor any_overflow(c10::Device goal) {
  at::Tensor found;
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (!has_context(device)) continue;
    const c10::DeviceGuard guard(npu_device(device));
    const at::Tensor here = overflow_status().any().to(goal);
    found = found.defined() ? at::logical_or(found, here) : here;
  }
  return found;
}

void unscale(at::TensorList self, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  check_one_device("_amp_foreach_non_finite_check_and_unscale_", self, found_inf, inv_scale);
  const DeviceScope scope(self, found_inf, inv_scale);
  call::aclnnForeachNonFiniteCheckAndUnscale(self, found_inf, inv_scale);
  if (overflow_is_infinite()) return;
  found_inf.masked_fill_(any_overflow(found_inf.device()), 1);
}

at::Tensor& update_scale(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf, double growth_factor,
                         double backoff_factor, int64_t growth_interval) {
  check_one_device("_amp_update_scale_", self, growth_tracker, found_inf);
  const DeviceScope scope(self, growth_tracker, found_inf);
  call::aclnnAmpUpdateScale(self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval, self,
                            growth_tracker);
  if (!overflow_is_infinite()) clear_overflow_flags();
  return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(unscale));
  m.impl("_amp_update_scale_", TORCH_FN(update_scale));
}

}  // namespace torch_npu
