#include "ops/calls/alias.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

namespace softnpu::ops {
namespace {

at::Tensor make_alias() {
  const c10::InferenceMode off(false);  // an inference tensor refuses in-place calls outside of inference mode
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                             at::DataPtr(nullptr, at::Device(at::kCPU)), /*allocator=*/nullptr,
                                                             /*resizable=*/false));
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                  caffe2::TypeMeta::Make<float>());
}

void point(at::Tensor& alias, const TensorView& view, int64_t bytes) {
  c10::TensorImpl* impl = alias.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(view.data, at::Device(at::kCPU)));
  storage->set_nbytes(size_t(bytes));
  const caffe2::TypeMeta type = c10::scalarTypeToTypeMeta(scalar_type_of(view.dtype));
  if (impl->dtype() != type) impl->set_storage_and_dtype(impl->storage(), type);
  const at::IntArrayRef sizes(view.sizes, size_t(view.ndim));
  const at::IntArrayRef strides(view.strides, size_t(view.ndim));
  if (impl->sizes() != sizes || impl->strides() != strides) impl->set_sizes_and_strides(sizes, strides);
}

}  // namespace

AliasTensors& AliasTensors::of_this_thread() {
  ThreadCache& cache = thread_cache();
  if (cache.aliases == nullptr) cache.aliases = new AliasTensors;
  return *cache.aliases;
}

at::Tensor* AliasTensors::bind(const Executor& executor) {
  const size_t count = executor.views.size();
  while (tensors_.size() < count) tensors_.push_back(make_alias());
  for (size_t i = 0; i < count; ++i) {
    if (executor.views[i].dtype != ACL_DT_UNDEFINED) point(tensors_[i], executor.views[i], executor.places[i].bytes);
  }
  return tensors_.data();
}

void AliasTensors::settle(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const c10::TensorImpl* impl = tensors_[i].unsafeGetTensorImpl();
    const bool is_ours = tensors_[i].use_count() == 1 && impl->unsafe_storage().use_count() == 1 && impl->storage_offset() == 0 &&
                         !impl->unsafe_storage().unsafeGetStorageImpl()->resizable() && !impl->is_conj() && !impl->is_neg();
    if (!is_ours) [[unlikely]]
      tensors_[i] = make_alias();
  }
}

c10::List<std::optional<at::Tensor>> Arguments::optional_tensors(int i) const {
  const Executor::Slice& slice = executor_.slices[i];
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(slice.count);
  for (uint32_t item = slice.begin; item < slice.begin + slice.count; ++item) list.push_back(optional_tensor(int(item)));
  return list;
}

std::string_view Arguments::text(int i) const { return executor_.strings[size_t(integer(i))]; }

std::optional<std::string_view> Arguments::optional_text(int i) const {
  return integer(i) < 0 ? std::nullopt : std::optional(text(i));
}

void Arguments::store(int i, const at::Tensor& result) const { store_view(size_t(i), result); }

void Arguments::store_list(int i, at::TensorList results) const {
  const Executor::Slice& slice = executor_.slices[i];
  TORCH_CHECK(results.size() == slice.count, "the kernel gives ", results.size(), " tensors for a list of ", slice.count);
  for (size_t item = 0; item < results.size(); ++item) store_view(slice.begin + item, results[item]);
}

void Arguments::store_view(size_t view, const at::Tensor& result) const {
  if (!has_tensor(int(view)) || !result.defined()) return;
  at::Tensor& target = tensors_[view];
  if (executor_.operation->sync) {
    TORCH_CHECK(result.numel() <= target.numel(), "the result has ", result.numel(), " elements, the output has room for ",
                target.numel());
    target.unsafeGetTensorImpl()->set_sizes_contiguous(result.sizes());
  }
  TORCH_CHECK(target.sizes() == result.sizes(), "the output has shape ", target.sizes(), ", the kernel gives ", result.sizes());
  target.copy_(result);
}

}  // namespace softnpu::ops
