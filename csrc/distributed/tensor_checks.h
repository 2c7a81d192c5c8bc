// Checks of the tensors of a collective, before anything is sent. A mistake is a c10::ValueError (a data type: c10::TypeError)
// that names the collective, the argument, what was given and what is allowed.
//
//   const TensorChecks check("all_gather_into_tensor");
//   check.on_npu(input, "input");
//   check.same_type(input, "input", output, "output");
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch_npu::distributed {

// A text such as "float32 [2, 3]".
std::string text_of(c10::ScalarType type, c10::IntArrayRef sizes);

class TensorChecks {
 public:
  // `op` must outlive the object.
  explicit TensorChecks(const char* op) : op_(op) {}

  // Defined, dense, on an npu.
  void on_npu(const at::Tensor& tensor, const char* name) const;
  // The same, and its elements lie in memory without gaps, in the order of its dimensions or of channels_last.
  void dense(const at::Tensor& tensor, const char* name) const;
  // Both dense(), of the same type and on the same device, with their elements in the same order.
  void dense_pair(const at::Tensor& input, const char* input_name, const at::Tensor& output, const char* output_name) const;
  // Contiguous in the order of the dimensions.
  void in_order(const at::Tensor& tensor, const char* name) const;
  // The tensors share no memory, or `part` begins at element `own_offset` of `whole`, if that is not negative.
  void apart(const at::Tensor& whole, const char* whole_name, const at::Tensor& part, const char* part_name,
             int64_t own_offset = -1) const;
  // There must be as many inputs as outputs, and at least one of each.
  void as_many(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) const;
  // The only tensor of a list, and dense().
  const at::Tensor& single(const std::vector<at::Tensor>& tensors, const char* name) const;
  // The only list of a list, with one tensor for each of `ranks` ranks, all on_npu().
  const std::vector<at::Tensor>& single_list(const std::vector<std::vector<at::Tensor>>& lists, const char* name,
                                             int64_t ranks) const;
  void list(const std::vector<at::Tensor>& tensors, const char* name, int64_t ranks) const;
  // The elements of the tensor must not share memory, as the elements of expand() do: each of them is written.
  void writable(const std::vector<at::Tensor>& tensors, const char* name) const;

  void same_type(const at::Tensor& first, const char* first_name, const at::Tensor& second, const char* second_name) const;
  void same_type(const std::vector<at::Tensor>& tensors, const char* name) const;
  void same_device(const std::vector<at::Tensor>& tensors, const char* name) const;
  // `large` has `factor` times as many elements as `small`.
  void elements(const at::Tensor& large, const char* large_name, const at::Tensor& small, const char* small_name,
                int64_t factor) const;
  void same_elements(const at::Tensor& first, const char* first_name, const at::Tensor& second, const char* second_name) const {
    elements(first, first_name, second, second_name, 1);
  }
  // `tensor` has as many elements as the part of this rank, `count`.
  void own_part(const at::Tensor& tensor, const char* name, uint64_t count, int rank) const;
  void rank(int64_t rank, const char* name, int64_t ranks) const;
  // Sizes of the parts of dimension 0 of `tensor`; all equal if `sizes` is empty. Returns the number of elements of each part.
  std::vector<uint64_t> splits(const at::Tensor& tensor, const char* name, c10::IntArrayRef sizes, int64_t ranks) const;

 private:
  const char* op_;
};

}  // namespace torch_npu::distributed
