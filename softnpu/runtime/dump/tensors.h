// Reads the tensors of an operator's task (runtime/operators.h), and their elements in the order of the sizes.
//
//   for_each_tensor(describe, payload, [](const SoftnpuOperatorTensor& tensor) { ... });
//   ElementReader reader(tensor);
//   while (size_t count = reader.read(buffer, sizeof buffer)) ...      // gives the bytes of a contiguous copy
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/operators.h"

namespace softnpu {

// The function given to softnpuDescribeOperators; null before that call.
SoftnpuOperatorDescriber operator_describer();

template <class Visit>
void for_each_tensor(SoftnpuOperatorDescriber describe, const void* payload, Visit visit) {
  describe(
      payload, [](void* context, const SoftnpuOperatorTensor* tensor) { (*static_cast<Visit*>(context))(*tensor); }, &visit);
}

// A name such as "float32"; "type 12345" for an unknown number.
std::string dtype_name(int32_t dtype);

uint64_t count_of(const SoftnpuOperatorTensor& tensor);
// The bytes of all elements; empty if there are more than 2^62.
std::optional<uint64_t> bytes_of(const SoftnpuOperatorTensor& tensor);
// The address of an element by its number in the order of the sizes.
std::byte* element_at(const SoftnpuOperatorTensor& tensor, uint64_t number);

class ElementReader {
 public:
  explicit ElementReader(const SoftnpuOperatorTensor& tensor);
  // Copies as many elements as fit into `bytes`, but at least one. Returns the number of bytes; 0 when all elements are read.
  size_t read(std::byte* out, size_t bytes);

 private:
  struct Dimension {
    uint64_t size;
    ptrdiff_t stride;  // in bytes
    uint64_t at = 0;
  };
  void advance(uint64_t count);

  const std::byte* next_;
  size_t item_;
  uint64_t left_;                      // elements that are not read yet
  std::vector<Dimension> dimensions_;  // outermost first, at least one; contiguous neighbours are merged
};

}  // namespace softnpu
