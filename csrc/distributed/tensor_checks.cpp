#include "distributed/tensor_checks.h"

#include <ATen/MemoryOverlap.h>
#include <c10/util/Exception.h>

#include <numeric>

#include "core/device/device.h"

namespace torch_npu::distributed {
namespace {

std::string text_of(const at::Tensor& tensor) { return distributed::text_of(tensor.scalar_type(), tensor.sizes()); }

}  // namespace

std::string text_of(c10::ScalarType type, c10::IntArrayRef sizes) { return c10::str(type, " ", sizes); }

void TensorChecks::on_npu(const at::Tensor& tensor, const char* name) const {
  TORCH_CHECK_VALUE(tensor.defined(), op_, ": argument '", name, "' is an undefined tensor");
  TORCH_CHECK_VALUE(tensor.layout() == c10::kStrided, op_, ": argument '", name, "' has the layout ", tensor.layout(),
                    ", but the backend hccl takes dense tensors only; call to_dense() before");
  TORCH_CHECK_VALUE(tensor.device().type() == kDeviceType, op_, ": argument '", name, "' is a tensor of ", tensor.device(),
                    ", but the backend hccl takes tensors of npu only; move the tensor with .npu(), or make the group with "
                    "backend=\"cpu:gloo,npu:hccl\"");
}

void TensorChecks::dense(const at::Tensor& tensor, const char* name) const {
  on_npu(tensor, name);
  TORCH_CHECK_VALUE(tensor.is_contiguous(tensor.suggest_memory_format()), op_, ": argument '", name, "' (", text_of(tensor),
                    ") is not contiguous, its strides are ", tensor.strides(), "; call .contiguous() before");
}

void TensorChecks::dense_pair(const at::Tensor& input, const char* input_name, const at::Tensor& output,
                              const char* output_name) const {
  dense(input, input_name);
  dense(output, output_name);
  same_type(input, input_name, output, output_name);
  const bool has_same_order =
      (input.is_contiguous() && output.is_contiguous()) || input.suggest_memory_format() == output.suggest_memory_format();
  TORCH_CHECK_VALUE(has_same_order, op_, ": arguments '", input_name, "' (", text_of(input), ") and '", output_name, "' (",
                    text_of(output), ") have their elements in different orders, their strides are ", input.strides(), " and ",
                    output.strides(), "; call .contiguous() on the one that is channels_last before");
}

void TensorChecks::in_order(const at::Tensor& tensor, const char* name) const {
  TORCH_CHECK_VALUE(tensor.is_contiguous(), op_, ": argument '", name, "' (", text_of(tensor),
                    ") is channels_last, its strides are ", tensor.strides(), "; give a contiguous tensor");
}

void TensorChecks::apart(const at::Tensor& whole, const char* whole_name, const at::Tensor& part, const char* part_name,
                         int64_t own_offset) const {
  const char* begin = static_cast<const char*>(whole.const_data_ptr());
  const char* other = static_cast<const char*>(part.const_data_ptr());
  if (whole.nbytes() == 0 || part.nbytes() == 0 || begin + whole.nbytes() <= other || other + part.nbytes() <= begin) return;
  if (own_offset >= 0 && other == begin + own_offset * whole.element_size()) return;
  TORCH_CHECK_VALUE(false, op_, ": arguments '", whole_name, "' and '", part_name, "' overlap in memory",
                    own_offset >= 0 ? c10::str("; in place, '", part_name, "' is the part of this rank, which begins at element ",
                                               own_offset, " of '", whole_name, "'")
                                    : std::string(),
                    "; give another tensor");
}

void TensorChecks::as_many(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) const {
  TORCH_CHECK_VALUE(!inputs.empty() && inputs.size() == outputs.size(), op_, ": there are ", inputs.size(), " inputs and ",
                    outputs.size(), " outputs; give as many of each, and at least one");
}

const at::Tensor& TensorChecks::single(const std::vector<at::Tensor>& tensors, const char* name) const {
  TORCH_CHECK_VALUE(tensors.size() == 1, op_, ": argument '", name, "' has ", tensors.size(),
                    " tensors, but a process of the backend hccl has one device and gives one tensor");
  dense(tensors[0], name);
  return tensors[0];
}

void TensorChecks::list(const std::vector<at::Tensor>& tensors, const char* name, int64_t ranks) const {
  TORCH_CHECK_VALUE(static_cast<int64_t>(tensors.size()) == ranks, op_, ": argument '", name, "' has ", tensors.size(),
                    " tensors, but the group has ", ranks, " ranks");
  for (const at::Tensor& tensor : tensors) on_npu(tensor, name);
  same_type(tensors, name);
}

void TensorChecks::writable(const std::vector<at::Tensor>& tensors, const char* name) const {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, op_, ": argument '", name, "' has a tensor (",
                      text_of(tensor), ") with elements that share memory, its strides are ", tensor.strides(),
                      "; pass a tensor that has memory for each element, such as a clone()");
  }
}

const std::vector<at::Tensor>& TensorChecks::single_list(const std::vector<std::vector<at::Tensor>>& lists, const char* name,
                                                         int64_t ranks) const {
  TORCH_CHECK_VALUE(lists.size() == 1, op_, ": argument '", name, "' has ", lists.size(),
                    " lists of tensors, but a process of the backend hccl has one device and gives one list");
  list(lists[0], name, ranks);
  return lists[0];
}

void TensorChecks::same_type(const at::Tensor& first, const char* first_name, const at::Tensor& second,
                             const char* second_name) const {
  TORCH_CHECK_TYPE(first.scalar_type() == second.scalar_type(), op_, ": arguments '", first_name, "' (", text_of(first),
                   ") and '", second_name, "' (", text_of(second), ") must have the same data type");
  TORCH_CHECK_VALUE(first.device() == second.device(), op_, ": arguments '", first_name, "' (", first.device(), ") and '",
                    second_name, "' (", second.device(), ") must be on the same device");
}

void TensorChecks::same_type(const std::vector<at::Tensor>& tensors, const char* name) const {
  for (const at::Tensor& tensor : tensors) same_type(tensors[0], name, tensor, name);
}

void TensorChecks::same_device(const std::vector<at::Tensor>& tensors, const char* name) const {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(tensor.device() == tensors[0].device(), op_, ": argument '", name, "' has tensors on ", tensors[0].device(),
                      " and on ", tensor.device(), "; they must be on one device");
  }
}

void TensorChecks::elements(const at::Tensor& large, const char* large_name, const at::Tensor& small, const char* small_name,
                            int64_t factor) const {
  TORCH_CHECK_VALUE(large.numel() == small.numel() * factor, op_, ": argument '", large_name, "' (", text_of(large), ") has ",
                    large.numel(), " elements, but '", small_name, "' (", text_of(small), ") requires ", small.numel() * factor,
                    factor == 1 ? "" : c10::str(": ", small.numel(), " for each of ", factor, " ranks"));
}

void TensorChecks::own_part(const at::Tensor& tensor, const char* name, uint64_t count, int rank) const {
  TORCH_CHECK_VALUE(static_cast<uint64_t>(tensor.numel()) == count, op_, ": argument '", name, "' (", text_of(tensor), ") has ",
                    tensor.numel(), " elements, but the part of this rank (", rank, ") has ", count);
}

void TensorChecks::rank(int64_t rank, const char* name, int64_t ranks) const {
  TORCH_CHECK_VALUE(rank >= 0 && rank < ranks, op_, ": argument '", name, "' is ", rank, ", but the ranks of the group are 0 to ",
                    ranks - 1);
}

std::vector<uint64_t> TensorChecks::splits(const at::Tensor& tensor, const char* name, c10::IntArrayRef sizes,
                                           int64_t ranks) const {
  const int64_t rows = tensor.dim() == 0 ? tensor.numel() : tensor.size(0);
  const int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  if (sizes.empty()) {
    TORCH_CHECK_VALUE(rows % ranks == 0, op_, ": dimension 0 of argument '", name, "' (", text_of(tensor),
                      ") cannot be divided by the number of ranks, ", ranks, "; give split sizes");
    return std::vector<uint64_t>(static_cast<size_t>(ranks), static_cast<uint64_t>(rows / ranks * row));
  }
  TORCH_CHECK_VALUE(static_cast<int64_t>(sizes.size()) == ranks, op_, ": there are ", sizes.size(), " split sizes for argument '",
                    name, "', but the group has ", ranks, " ranks");
  std::vector<uint64_t> counts;
  for (const int64_t size : sizes) {
    TORCH_CHECK_VALUE(size >= 0, op_, ": the split sizes of argument '", name, "' are ", sizes, "; they must not be negative");
    counts.push_back(static_cast<uint64_t>(size * row));
  }
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  TORCH_CHECK_VALUE(sum == rows, op_, ": the split sizes of argument '", name, "' are ", sizes, " and add up to ", sum,
                    ", but its dimension 0 has ", rows, " (", text_of(tensor), ")");
  return counts;
}

}  // namespace torch_npu::distributed
