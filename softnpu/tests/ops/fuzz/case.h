// One call of an aclnn function as plain data. It lies in memory that workers share with their parent process, which prints it
// after a crash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/fuzz/table.h"

namespace softnpu::fuzz {

constexpr int kMaxRank = 8;
constexpr int kMaxArguments = 32;
constexpr int kMaxTensors = 64;
constexpr int kMaxScalars = 16;
constexpr int kMaxValues = 8;  // of an array
constexpr int kMaxItems = 4;   // of a list
constexpr int64_t kMaxElements = 1 << 12;

// The contents of a tensor before the call.
enum class Fill : uint8_t {
  kSmall,    // integers from 0 to 3, floats of a normal distribution
  kZeros,    //
  kOnes,     //
  kSorted,   // 0, 1, 2, ...
  kSpecial,  // small numbers, and NaN, infinity, the largest and the smallest numbers
};

struct Tensor {
  bool is_null = false;
  bool has_strides = true;  // false: the strides are null
  bool has_memory = true;   // false: the address is null
  int32_t dtype = ACL_FLOAT;
  int32_t format = ACL_FORMAT_ND;
  int32_t rank = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};
  int64_t offset = 0;   // elements
  int32_t shares = -1;  // index of an earlier tensor with the same address; -1 for none
  int64_t missing = 0;  // the allocation is so many bytes too small
  Fill fill = Fill::kSmall;
  uint64_t fill_seed = 0;
};

struct Scalar {
  bool is_null = false;
  int32_t dtype = ACL_FLOAT;
  double real = 0;
  double imaginary = 0;  // of complex types
};

struct Argument {
  bool is_null = false;
  int32_t first = 0;  // index of the first tensor or scalar in the case
  int32_t count = 0;  // elements of a list or an array
  int64_t integers[kMaxValues] = {};
  double reals[kMaxValues] = {};
  int32_t text = 0;  // index in kTexts
};

enum class Mode : uint8_t {
  kOnce,          // phase one, phase two
  kTwice,         // the executor is made repeatable and used twice
  kOnlyPhaseOne,  // the executor is destroyed
  kNullSize,      // the pointer for the workspace size is null
  kNullExecutor,  // the pointer for the executor is null
};

struct Case {
  int32_t function = 0;
  Mode mode = Mode::kOnce;
  bool destroys_early = false;  // the arguments are destroyed before the stream is synchronized
  int32_t tensor_count = 0;
  int32_t scalar_count = 0;
  Argument arguments[kMaxArguments];
  Tensor tensors[kMaxTensors];
  Scalar scalars[kMaxScalars];
};

// Names in the text of a case.
extern const char* const kFillNames[5];
extern const char* const kModeNames[5];
inline constexpr char kDestroysEarly[] = " objects destroyed early";

struct NamedType {
  const char* name;
  int32_t dtype;
};
std::span<const NamedType> named_types();

// Strings that kernels accept, and others.
extern const char* const kTexts[];
extern const int kTextCount;

const Function& function_of(const Case& one);
bool is_single(Kind kind);  // not a list
bool is_tensor(Kind kind);  // a tensor or a list of tensors

// Without undefined behaviour for extreme sizes and strides.
inline int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrapping_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Bytes of an element; 1 for types without a size.
int64_t item_size(int32_t dtype);
int64_t count_elements(const Tensor& tensor);
// Bytes from the address to the end of the last element; -1 if the number overflows or is negative.
int64_t bytes_of(const Tensor& tensor);
void set_dense(Tensor& tensor);
// Makes tensors and scalars null that no argument uses.
void drop_unused(Case& one);

// A block of device memory of a call. Tensors that share memory have the same block.
struct Block {
  int64_t bytes = 0;  // 0: not allocated; the address is null
  int owner = 0;      // the first tensor of the block
};
// The block of each tensor.
std::vector<Block> plan_memory(const Case& one);

// The contents of a tensor. The bytes are repeated until its memory is full.
std::vector<uint8_t> pattern_of(const Tensor& tensor);
// The bytes of a number in a data type. `imaginary` is used only for complex types.
void store_number(int32_t dtype, double real, double imaginary, uint8_t* bytes);

// "aclnnAdds(self=ACL_FLOAT[2, 3] small 7, other=ACL_FLOAT 1, alpha=null, out=ACL_FLOAT[2, 3] strides [1, 2] zeros)".
std::string describe(const Case& one);
// The inverse of describe(). False if the text is not such a line.
bool parse(std::string_view text, Case& one);
// A C program that makes this call.
std::string as_program(const Case& one, const std::string& comment);

}  // namespace softnpu::fuzz
