// Tensors of a list as parts of one piece of memory, which libhccl sends and receives.
//
//   const Parts parts(outputs);
//   const at::Tensor all = parts.memory();          // an empty tensor, or the tensors themselves if they are neighbours
//   ...                                             // the device writes `all`
//   parts.copy_from(all);
//
// Neighbours that share memory with a tensor of the other side are copied: ranks would read what was written already.
// Operators run on the current stream. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "distributed/data_types.h"

namespace torch_npu::distributed {

// Offsets of parts that lie one behind the other.
std::vector<uint64_t> offsets_of(const std::vector<uint64_t>& counts);
std::vector<uint64_t> scaled(std::vector<uint64_t> counts, int64_t factor);
bool are_equal(const std::vector<uint64_t>& counts);

class Parts {
 public:
  // `tensors` is not empty, and its tensors have one data type and device. `others` are the tensors of the other side.
  Parts(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& others);

  // Elements of each tensor.
  const std::vector<uint64_t>& counts() const { return counts_; }
  // Room for the elements of all tensors.
  at::Tensor memory() const;
  // The same, filled with the tensors.
  at::Tensor filled() const;
  // Writes the tensors. `memory` is what memory() returned.
  void copy_from(const at::Tensor& memory) const;

 private:
  uint64_t total() const;
  bool are_neighbours() const;
  // True if the tensors are neighbours and share memory with `other`.
  bool overlap(const at::Tensor& other) const;

  const std::vector<at::Tensor>& tensors_;
  std::vector<uint64_t> counts_;
  bool is_whole_;  // the tensors are contiguous and lie one behind the other in one storage, apart from the others
};

}  // namespace torch_npu::distributed
