#include "distributed/parts.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

namespace torch_npu::distributed {

std::vector<uint64_t> offsets_of(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), uint64_t{0});
  return offsets;
}

std::vector<uint64_t> scaled(std::vector<uint64_t> counts, int64_t factor) {
  for (uint64_t& count : counts) count *= static_cast<uint64_t>(factor);
  return counts;
}

bool are_equal(const std::vector<uint64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](uint64_t count) { return count == counts[0]; });
}

Parts::Parts(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& others) : tensors_(tensors) {
  for (const at::Tensor& tensor : tensors) counts_.push_back(static_cast<uint64_t>(tensor.numel()));
  is_whole_ =
      are_neighbours() && std::none_of(others.begin(), others.end(), [this](const at::Tensor& other) { return overlap(other); });
}

bool Parts::are_neighbours() const {
  int64_t next = tensors_[0].storage_offset();
  for (const at::Tensor& tensor : tensors_) {
    const bool is_next = tensor.is_contiguous() && tensor.is_alias_of(tensors_[0]) && tensor.storage_offset() == next;
    if (!is_next) return false;
    next += tensor.numel();
  }
  return true;
}

bool Parts::overlap(const at::Tensor& other) const {
  const auto* const begin = static_cast<const char*>(tensors_[0].const_data_ptr());
  const auto* const end = begin + static_cast<int64_t>(total()) * tensors_[0].element_size();
  const auto* const first = static_cast<const char*>(other.const_data_ptr());
  const auto* const last = first + at::detail::computeStorageNbytes(other.sizes(), other.strides(), other.dtype().itemsize());
  return begin < last && first < end;
}

uint64_t Parts::total() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

at::Tensor Parts::memory() const {
  const auto total = static_cast<int64_t>(this->total());
  if (is_whole_) return tensors_[0].as_strided({total}, {1});
  return at::empty({total}, tensors_[0].options());
}

at::Tensor Parts::filled() const {
  const at::Tensor all = memory();
  if (is_whole_) return all;
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors_) {
    all.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    at += tensor.numel();
  }
  return all;
}

void Parts::copy_from(const at::Tensor& memory) const {
  if (is_whole_) return;
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors_) {
    tensor.copy_(memory.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

}  // namespace torch_npu::distributed
