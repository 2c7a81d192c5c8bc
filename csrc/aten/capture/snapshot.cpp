#include "aten/capture/snapshot.h"

#include <ATen/Operators.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "acl/symbol.h"
#include "core/stream/open_captures.h"
#include "plugin/calls.h"

namespace torch_npu::capture {
namespace {

constexpr c10::DispatchKeySet kIncluded(c10::DispatchKey::BackendSelect);
const c10::DispatchKeySet kExcluded =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::PreDispatch, c10::DispatchKey::PythonDispatcher, c10::DispatchKey::Python,
                         c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::FuncTorchBatched});

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRowsOfBlock = 4096;

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

// Whether the device library computes all statistics of a tensor at once. Only softnpu does.
bool has_one_launch(const at::Tensor& tensor) {
  static const bool has_function = acl::find_op_symbol("aclnnSoftTensorStatistics") != nullptr;
  if (!tensor.is_privateuseone() || !has_function) return false;
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kComplexFloat:
    case at::kComplexDouble:
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kBool:
      return true;
    default:
      return false;
  }
}

at::Tensor values_of(const at::Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;
}

// The values, converted to a type that has reductions.
at::Tensor reducible(const at::Tensor& tensor) {
  const at::Tensor values = values_of(tensor);
  switch (values.scalar_type()) {
    case at::kUInt16:
    case at::kUInt32:
    case at::kUInt64:
      return values.to(at::kDouble);
    case at::kComplexHalf:
      return values.to(at::kComplexFloat);
    default:
      return at::isFloatingType(values.scalar_type()) && values.element_size() == 1 ? values.to(at::kFloat) : values;
  }
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

size_t bytes_of_snapshot(const at::Tensor& tensor) {
  return why_unreadable(tensor) != nullptr ? 0 : static_cast<size_t>(tensor.numel()) * tensor.element_size();
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
  const at::Tensor finite = at::_ops::isfinite::call(reducible(tensor));  // floats of eight bits have no isfinite
  return !at::_ops::all::call(finite).item<bool>();
}

StatisticsBatch::Place StatisticsBatch::put(const at::Tensor& scalar) {
  const auto [found, added] = groups_of_.try_emplace(scalar.scalar_type(), static_cast<int>(groups_.size()));
  if (added) groups_.emplace_back();
  Group& group = groups_[found->second];
  group.scalars.push_back(scalar);
  return {found->second, group.scalars.size() - 1};
}

StatisticsBatch::Row StatisticsBatch::summarise(at::Tensor values) {
  if (values.scalar_type() == at::kBool) values = values.to(at::kByte);
  if (at::isComplexType(values.scalar_type())) values = at::_ops::abs::call(values);
  const bool is_float = at::isFloatingType(values.scalar_type());
  Row row;
  const auto [least, greatest] = at::_ops::aminmax::call(values, std::nullopt, false);
  row[0] = put(greatest);
  row[1] = put(least);
  if (!is_float) values = values.to(at::kFloat);
  const auto sum_type = values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  row[2] = put(at::_ops::mean::call(values, sum_type));
  row[3] = put(at::_ops::linalg_vector_norm::call(values, 2, std::nullopt, false, sum_type));
  return row;
}

void StatisticsBatch::summarise_in_one_launch(at::TensorList tensors, const std::vector<size_t>& rows) {
  const auto count = static_cast<int64_t>(tensors.size());
  if (block_ < 0 || static_cast<int64_t>(groups_[block_].used) + count > groups_[block_].block.size(0)) {
    const auto options = at::TensorOptions(at::kDouble).device(tensors.front().device());
    groups_.emplace_back();
    block_ = static_cast<int>(groups_.size()) - 1;
    groups_[block_].block = at::empty({std::max(kRowsOfBlock, count), 4}, options);
  }
  Group& group = groups_[block_];
  call::aclnnSoftTensorStatistics(tensors, group.block.narrow(0, static_cast<int64_t>(group.used), count));
  for (const size_t row : rows) {
    for (size_t i = 0; i < 4; ++i) rows_[row][i] = {block_, group.used * 4 + i};
    ++group.used;
  }
}

std::optional<size_t> StatisticsBatch::add(at::TensorList tensors) {
  const std::lock_guard lock(mutex_);
  if (is_flushed()) return std::nullopt;
  const size_t first = rows_.size();
  rows_.resize(first + tensors.size());
  std::vector<at::Tensor> together;
  std::vector<size_t> rows;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor values = reducible(tensors[i]);
    if (has_one_launch(values)) {
      together.push_back(values);
      rows.push_back(first + i);
    } else {
      rows_[first + i] = summarise(values);
    }
  }
  if (!together.empty()) summarise_in_one_launch(together, rows);
  return first;
}

void StatisticsBatch::copy_to_host() {
  const bool is_npu = stream_.device_type() == c10::DeviceType::PrivateUse1;
  TORCH_CHECK(!is_npu || !captures_exist() || !is_capturing(NPUStream(stream_)),
              "the statistics of a stream were not read, because a graph capture of the stream has begun");
  const c10::StreamGuard guard(stream_);
  for (Group& group : groups_) {
    const bool is_block = group.block.defined();
    const at::Tensor joined =
        is_block ? group.block.narrow(0, 0, static_cast<int64_t>(group.used)) : at::_ops::stack::call(group.scalars, 0);
    group.scalars.clear();
    group.block.reset();
    if (joined.device().is_cpu()) {
      group.host = joined.to(at::kDouble);
      continue;
    }
    group.host = at::empty(joined.sizes(), at::TensorOptions(joined.scalar_type()).device(at::kCPU).pinned_memory(true));
    group.host.copy_(joined, /*non_blocking=*/true);
  }
  if (stream_.device().is_cpu()) return;
  copied_.emplace_back(stream_.device_type());
  copied_.back().record(stream_);
}

void StatisticsBatch::flush() noexcept {
  const std::lock_guard lock(mutex_);
  if (is_flushed()) return;
  try {
    copy_to_host();
  } catch (const c10::Error& error) {
    failure_ = error.what_without_backtrace();
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  flushed_.store(true, std::memory_order_release);
}

std::array<double, 4> StatisticsBatch::values(size_t row) {
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(failure_.empty(), failure_);
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

// Returns the statistics of the same memory at the same version, or null.
CapturedTensorPtr Statistics::find(const at::Tensor& tensor, const CapturedTensor& described, uint32_t version) {
  const uint64_t replays = replayed_graphs();
  if (replays != replays_) known_.clear();  // a replay writes tensors and calls no operator
  replays_ = replays;
  const auto known = known_.find(tensor.storage().unsafeGetStorageImpl());
  if (known == known_.end()) return nullptr;
  for (const Known& each : known->second) {
    const CapturedTensor& earlier = *each.captured;
    if (each.offset == tensor.storage_offset() && each.version == version && earlier.dtype == described.dtype &&
        earlier.requires_grad == described.requires_grad && earlier.sizes == described.sizes &&
        earlier.strides == described.strides) {
      return each.captured;
    }
  }
  return nullptr;
}

CapturedTensorPtr Statistics::of(const at::Tensor& tensor, std::vector<Unsummarised>& rest) {
  CapturedTensorPtr captured = describe(tensor);
  if (!captured->missing.empty() || tensor.numel() == 0) return captured;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const uint32_t version = impl->is_inference() ? 0 : impl->version_counter().current_version();
  // A program may write CPU memory through numpy, without an operator. Inference tensors have no version counter.
  const bool is_tracked = !tensor.is_cpu() && !impl->is_inference() && !tensor.is_conj() && !tensor.is_neg();
  if (is_tracked) {
    const std::lock_guard lock(mutex_);
    if (CapturedTensorPtr earlier = find(tensor, *captured, version)) return earlier;
  }
  rest.push_back({tensor, captured, version, is_tracked});
  return captured;
}

void Statistics::compute(const std::vector<Unsummarised>& rest) {
  std::vector<c10::Device> devices;
  for (const Unsummarised& each : rest) {
    const c10::Device device = each.tensor.device();
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) continue;
    devices.push_back(device);
    compute_on(device, rest);
  }
}

void Statistics::compute_on(c10::Device device, const std::vector<Unsummarised>& rest) {
  std::vector<at::Tensor> tensors;
  for (const Unsummarised& each : rest) {
    if (each.tensor.device() == device) tensors.push_back(each.tensor);
  }
  const c10::OptionalDeviceGuard guard(device.is_cpu() ? std::nullopt : std::optional(device));
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  std::shared_ptr<StatisticsBatch> batch;
  std::optional<size_t> row;
  while (!row.has_value()) {  // repeated if another thread has flushed the batch
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<StatisticsBatch>& open =
          open_[{std::this_thread::get_id(), stream.device_type(), stream.device_index(), stream.id()}];
      if (open == nullptr || open->is_flushed()) open = std::make_shared<StatisticsBatch>(stream);
      batch = open;
    }
    row = batch->add(tensors);
  }
  const std::lock_guard lock(mutex_);
  for (const Unsummarised& each : rest) {
    if (each.tensor.device() != device) continue;
    each.captured->batch = batch;
    each.captured->row = (*row)++;
    if (each.is_tracked) remember(each);
  }
}

// The caller holds mutex_.
void Statistics::remember(const Unsummarised& each) {
  const c10::Storage& storage = each.tensor.storage();
  known_[storage.unsafeGetStorageImpl()].push_back(
      {storage.getWeakStorageImpl(), each.tensor.storage_offset(), each.version, each.captured});
  if (known_.size() <= most_known_) return;
  std::erase_if(known_, [](const auto& entry) { return entry.second.front().storage.expired(); });
  most_known_ = std::max<size_t>(4096, 2 * known_.size());
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
