#include "aten/capture/snapshot.h"

#include <ATen/Operators.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <limits>

#include "core/stream/open_captures.h"

namespace torch_npu::capture {
namespace {

constexpr c10::DispatchKeySet kIncluded(c10::DispatchKey::BackendSelect);
const c10::DispatchKeySet kExcluded =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::PreDispatch, c10::DispatchKey::PythonDispatcher, c10::DispatchKey::Python,
                         c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::FuncTorchBatched});

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The reason why the values of the tensor cannot be read, or null.
const char* why_unreadable(const at::Tensor& tensor) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kWrapped({DispatchKey::Python, DispatchKey::Fake, DispatchKey::FuncTorchBatched,
                                          DispatchKey::FuncTorchGradWrapper, DispatchKey::Functionalize});
  if (tensor.key_set().has_any(kWrapped)) return "it is a subclass of torch.Tensor";
  if (tensor.layout() != at::kStrided || tensor.is_nested()) return "it is not strided";
  if (tensor.is_quantized()) return "it is quantized";
  if (tensor._is_zerotensor()) return "it has no memory";
  if (tensor.device().is_meta() || !tensor.has_storage()) return "it has no memory";
  if (tensor.numel() != 0 && tensor.storage().data() == nullptr) return "its storage was resized to 0";
  return nullptr;
}

at::Tensor values_of(const at::Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;
}

}  // namespace

PlainCalls::PlainCalls() : guard_(kIncluded, kExcluded) {}

CapturedTensorPtr describe(const at::Tensor& tensor) {
  auto captured = std::make_shared<CapturedTensor>(tensor.scalar_type(), tensor.device());
  captured->requires_grad = tensor.requires_grad();
  if (const char* reason = why_unreadable(tensor)) captured->missing = reason;
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || tensor.is_nested()) return captured;
  captured->sizes = tensor.sizes().vec();
  if (tensor.layout() == at::kStrided) captured->strides = tensor.strides().vec();
  return captured;
}

CapturedTensorPtr snapshot(const at::Tensor& tensor) {
  CapturedTensorPtr captured = describe(tensor);
  if (!captured->missing.empty()) return captured;
  const at::Tensor source = values_of(tensor);
  if (source.device().is_cpu()) {
    captured->data = at::_ops::clone::call(source, at::MemoryFormat::Contiguous);
    return captured;
  }
  const auto options = at::TensorOptions(source.scalar_type()).device(at::kCPU).pinned_memory(source.numel() != 0);
  captured->data = at::empty(source.sizes(), options);
  captured->data.copy_(source.contiguous(), /*non_blocking=*/true);
  return captured;
}

bool has_non_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || why_unreadable(tensor) != nullptr || tensor.numel() == 0) return false;
  if (!at::isFloatingType(tensor.scalar_type()) && !at::isComplexType(tensor.scalar_type())) return false;
  const at::Tensor finite = at::_ops::isfinite::call(tensor);
  return !at::_ops::all::call(finite).item<bool>();
}

StatisticsBatch::Place StatisticsBatch::put(const at::Tensor& scalar) {
  const auto [found, added] = groups_of_.try_emplace(scalar.scalar_type(), static_cast<int>(groups_.size()));
  if (added) groups_.emplace_back();
  Group& group = groups_[found->second];
  group.scalars.push_back(scalar);
  return {found->second, group.scalars.size() - 1};
}

std::optional<size_t> StatisticsBatch::add(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  if (is_flushed()) return std::nullopt;
  at::Tensor values = values_of(tensor);
  if (values.scalar_type() == at::kBool) values = values.to(at::kByte);
  if (at::isComplexType(values.scalar_type())) values = at::_ops::abs::call(values);
  std::array<Place, 4> places;
  const bool is_float = at::isFloatingType(values.scalar_type());
  if (is_float && values.element_size() == 1) values = values.to(at::kFloat);
  const auto [least, greatest] = at::_ops::aminmax::call(values, std::nullopt, false);
  places[0] = put(greatest);
  places[1] = put(least);
  if (!is_float) values = values.to(at::kFloat);
  const auto sum_type = values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  places[2] = put(at::_ops::mean::call(values, sum_type));
  places[3] = put(at::_ops::linalg_vector_norm::call(values, 2, std::nullopt, false, sum_type));
  rows_.push_back(places);
  return rows_.size() - 1;
}

void StatisticsBatch::flush() {
  const std::lock_guard lock(mutex_);
  if (is_flushed()) return;
  const c10::StreamGuard guard(stream_);
  for (Group& group : groups_) {
    const at::Tensor joined = at::_ops::stack::call(group.scalars, 0);
    group.scalars.clear();
    if (joined.device().is_cpu()) {
      group.host = joined.to(at::kDouble);
      continue;
    }
    group.host = at::empty(joined.sizes(), at::TensorOptions(joined.scalar_type()).device(at::kCPU).pinned_memory(true));
    group.host.copy_(joined, /*non_blocking=*/true);
  }
  if (!stream_.device().is_cpu()) {
    copied_.emplace_back(stream_.device_type());
    copied_.back().record(stream_);
  }
  flushed_.store(true, std::memory_order_release);
}

std::array<double, 4> StatisticsBatch::values(size_t row) {
  {
    const std::lock_guard lock(mutex_);
    for (const c10::Event& event : copied_) event.synchronize();
    if (!copied_.empty()) {
      copied_.clear();
      for (Group& group : groups_) group.host = group.host.to(at::kDouble);
    }
  }
  std::array<double, 4> numbers{kNone, kNone, kNone, kNone};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Place& place = rows_[row][i];
    if (place.group >= 0) numbers[i] = groups_[place.group].host.data_ptr<double>()[place.index];
  }
  return numbers;
}

// The statistics of the same memory in the same version, or null.
CapturedTensorPtr Statistics::find(const at::Tensor& tensor, const CapturedTensor& described, uint32_t version) {
  const uint64_t replays = replayed_graphs();
  if (replays != replays_) known_.clear();  // a replay writes tensors without an operator
  replays_ = replays;
  std::vector<Known>& known = known_[tensor.storage().unsafeGetStorageImpl()];
  std::erase_if(known, [](const Known& each) { return each.storage.expired(); });
  for (const Known& each : known) {
    const CapturedTensor& earlier = *each.captured;
    if (each.offset == tensor.storage_offset() && each.version == version && earlier.dtype == described.dtype &&
        earlier.requires_grad == described.requires_grad && earlier.sizes == described.sizes &&
        earlier.strides == described.strides) {
      return each.captured;
    }
  }
  return nullptr;
}

CapturedTensorPtr Statistics::of(const at::Tensor& tensor) {
  CapturedTensorPtr captured = describe(tensor);
  if (!captured->missing.empty() || tensor.numel() == 0) return captured;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const uint32_t version = impl->is_inference() ? 0 : impl->version_counter().current_version();
  // A program may write CPU memory without an operator, through numpy. Inference tensors have no versions.
  const bool is_tracked = !tensor.is_cpu() && !impl->is_inference() && !tensor.is_conj() && !tensor.is_neg();
  const c10::Stream stream = c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
  std::optional<size_t> row;
  while (!row.has_value()) {  // until no other thread flushes the batch meanwhile
    {
      const std::lock_guard lock(mutex_);
      if (is_tracked) {
        if (CapturedTensorPtr earlier = find(tensor, *captured, version)) return earlier;
      }
      std::shared_ptr<StatisticsBatch>& batch =
          open_[{std::this_thread::get_id(), stream.device_type(), stream.device_index(), stream.id()}];
      if (batch == nullptr || batch->is_flushed()) batch = std::make_shared<StatisticsBatch>(stream);
      captured->batch = batch;
    }
    row = captured->batch->add(tensor);
  }
  captured->row = *row;
  if (is_tracked) {
    const std::lock_guard lock(mutex_);
    known_[storage].push_back({tensor.storage().getWeakStorageImpl(), tensor.storage_offset(), version, captured});
  }
  return captured;
}

void Statistics::forget(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const std::lock_guard lock(mutex_);
  known_.erase(tensor.storage().unsafeGetStorageImpl());
}

void Statistics::flush_of_thread(size_t rows) {
  std::vector<std::shared_ptr<StatisticsBatch>> full;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [&](const auto& entry) {
      const bool is_full = std::get<0>(entry.first) == std::this_thread::get_id() && entry.second->rows() >= rows;
      if (is_full) full.push_back(entry.second);
      return is_full;
    });
  }
  for (const auto& batch : full) batch->flush();
}

void Statistics::flush_all() {
  decltype(open_) batches;
  {
    const std::lock_guard lock(mutex_);
    batches.swap(open_);
  }
  for (const auto& [_, batch] : batches) batch->flush();
}

}  // namespace torch_npu::capture
