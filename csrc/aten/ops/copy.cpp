#include "aten/ops/copy.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <c10/util/Load.h>
#include <torch/library.h>

#include "acl/symbol.h"
#include "aten/machinery/allocate.h"
#include "aten/machinery/autograd_bypass.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/dispatch_entry.h"
#include "core/memory/host_allocator.h"
#include "core/stream/event.h"
#include "core/stream/stream.h"
#include "core/stream/sync_debug.h"
#include "plugin/calls.h"

namespace torch_npu {

namespace {

bool is_npu(const at::Tensor& tensor) { return tensor.device().type() == kDeviceType; }

// The same memory as a tensor that is neither a conjugated nor a negated view.
at::Tensor unmarked(at::Tensor tensor) {
  if (tensor.is_conj()) tensor = at::_conj(tensor);
  if (tensor.is_neg()) tensor = at::_neg_view(tensor);
  return tensor;
}

// Whether both have one dtype and the same dense layout, so that their bytes can be copied.
bool same_dense_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         ((a.is_contiguous() && b.is_contiguous()) || (a.strides() == b.strides() && a.is_non_overlapping_and_dense()));
}

void record_host_memory(const at::Tensor& host, NPUStream stream) {
  const at::DataPtr& memory = host.storage().data_ptr();
  getNPUHostAllocator()->record_event(memory.get(), memory.get_context(), stream.unwrap());
}

// Moves the bytes of two tensors of the same dense layout, one of them on the host.
void move_bytes(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const at::Tensor& host = is_npu(dst) ? src : dst;
  const auto kind = is_npu(dst) ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
  const NPUStream stream = getCurrentNPUStream();
  const size_t bytes = dst.nbytes();
  if (non_blocking && is_pinned(host.const_data_ptr())) {
    ACL_CALL(aclrtMemcpyAsync, dst.mutable_data_ptr(), bytes, src.const_data_ptr(), bytes, kind, stream.stream());
    record_host_memory(host, stream);
    return;
  }
  report_sync("aten::copy_", non_blocking ? "the memory of the host is not pinned" : "the copy is not asked to be non_blocking");
  stream.synchronize();
  ACL_CALL(aclrtMemcpy, dst.mutable_data_ptr(), bytes, src.const_data_ptr(), bytes, kind);
}

void copy_on_device(const at::Tensor& dst, const at::Tensor& src) {
  const DeviceScope scope(dst);
  call::aclnnInplaceCopy(dst, src);
}

void copy_from_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const DeviceScope scope(dst);
  if (same_dense_layout(dst, src)) {
    move_bytes(dst, src, non_blocking);
    return;
  }
  const bool from_pinned = non_blocking && is_pinned(src.const_data_ptr());
  const at::Tensor dense = (from_pinned ? src : src.to(dst.scalar_type())).contiguous();
  if (same_dense_layout(dst, dense)) {
    move_bytes(dst, dense, false);
    return;
  }
  const at::Tensor staged = empty(dense.sizes(), dense.dtype());
  move_bytes(staged, dense, non_blocking);
  call::aclnnInplaceCopy(dst, staged);
}

void copy_to_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const DeviceScope scope(src);
  at::Tensor dense = src;
  if (src.scalar_type() != dst.scalar_type() || !(same_dense_layout(dst, src) || src.is_contiguous())) {
    dense = empty(src.sizes(), dst.dtype());
    call::aclnnInplaceCopy(dense, src);
  }
  if (same_dense_layout(dst, dense)) {
    move_bytes(dst, dense, non_blocking);
    return;
  }
  const at::Tensor staged = at::empty(dense.sizes(), dense.options().device(at::kCPU));
  move_bytes(staged, dense, false);
  dst.copy_(staged);
}

void copy_between_devices(const at::Tensor& dst, const at::Tensor& src) {
  at::Tensor dense = src;
  if (!same_dense_layout(dst, src)) {
    const DeviceScope scope(src);
    dense = empty(src.sizes(), dst.dtype());
    call::aclnnInplaceCopy(dense, src);
  }
  const DeviceScope scope(dst);
  const at::Tensor landing = same_dense_layout(dst, dense) ? dst : empty(dense.sizes(), dense.dtype());
  const NPUStream there = getCurrentNPUStream(src.device().index());
  const NPUStream here = getCurrentNPUStream(dst.device().index());
  NPUEvent free, arrived;
  free.record(here);
  free.block(there);
  {
    const BoundDevice bound(src.device().index());
    ACL_CALL(aclrtMemcpyAsync, landing.mutable_data_ptr(), landing.nbytes(), dense.const_data_ptr(), dense.nbytes(),
             ACL_MEMCPY_DEVICE_TO_DEVICE, there.stream());
  }
  arrived.record(there);
  arrived.block(here);
  if (!landing.is_same(dst)) call::aclnnInplaceCopy(dst, landing);
}

// For the memory of another kind of accelerator, which the NPU cannot access.
void copy_through_host(const at::Tensor& dst, const at::Tensor& src) {
  const at::Tensor staged = src.cpu();
  dst.copy_(staged);
}

void copy_values(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (!is_npu(dst)) return dst.is_cpu() ? copy_to_host(dst, src, non_blocking) : copy_through_host(dst, src);
  if (C10_UNLIKELY(!is_npu(src) && !src.is_cpu())) return copy_through_host(dst, src);
  if (!is_npu(src)) return copy_from_host(dst, src, non_blocking);
  if (dst.device() == src.device()) return copy_on_device(dst, src);
  copy_between_devices(dst, src);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor target = dst;
  return copy_(target, self, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  at::Tensor target = dst;
  target.resize_(self.sizes());
  return copy_(target, self, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  const DeviceScope scope(self);
  report_sync("aten::_local_scalar_dense", "item(), bool(), int() and float() need the value on the host");
  getCurrentNPUStream().synchronize();
  alignas(16) char bytes[16];
  ACL_CALL(aclrtMemcpy, bytes, sizeof(bytes), self.const_data_ptr(), self.itemsize(), ACL_MEMCPY_DEVICE_TO_HOST);
  at::Scalar value;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense", AT_WRAP([&] { value = c10::load<scalar_t>(bytes); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16,
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES));
  return value;
}

const AutogradKernel autograd_kernel("aten::_local_scalar_dense", "");
const DispatchEntry* item_kernel;

// The result has no gradient, so operands need no check. The kernel is called directly, since item() is on a hot path.
at::Scalar local_scalar_dense_autograd(c10::DispatchKeySet keys, const at::Tensor& self) {
  if (!autograd_kernel.may_be_skipped(keys)) return at::_ops::_local_scalar_dense::redispatch(with_autograd(keys), self);
  if (C10_LIKELY(item_kernel->is_unchanged())) return local_scalar_dense(self);
  const at::AutoDispatchBelowADInplaceOrView below;
  return at::_ops::_local_scalar_dense::redispatch(kDeviceKeys, self);
}

}  // namespace

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.defined(), "self is undefined");
  TORCH_CHECK(src.defined(), "src is undefined");
  if (self.is_same(src)) return self;
  TORCH_CHECK(!self._is_zerotensor(), "ZeroTensors are immutable. Please materialize the tensor using `.clone()`, if you want a ",
              "mutable zero tensor.");
  if (src._is_zerotensor()) return self.zero_();
  if (C10_UNLIKELY(self.sizes() != src.sizes())) {
    const auto sizes = at::infer_size_dimvector(self.sizes(), src.sizes());
    TORCH_CHECK(sizes == self.sizes(), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
                at::IntArrayRef(sizes));
  }
  if (self.numel() == 0) return self;
  at::assert_no_internal_overlap(self);
  at::assert_no_partial_overlap(self, src);
  if (C10_LIKELY(!self.is_conj() && !src.is_conj() && !self.is_neg() && !src.is_neg())) {
    copy_values(self, src, non_blocking);
    return self;
  }
  const at::Tensor target = unmarked(self);
  copy_values(target, unmarked(src), /*non_blocking=*/false);
  if (self.is_conj() != src.is_conj() && target.is_complex()) at::view_as_real(target).select(-1, 1).neg_();
  if (self.is_neg() != src.is_neg()) target.neg_();
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  item_kernel = new DispatchEntry("aten::_local_scalar_dense", "", c10::DispatchKey::PrivateUse1);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense_autograd)); }

}  // namespace torch_npu
