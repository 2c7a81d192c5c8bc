// Draws the arguments of one case: generate.h. Part of the fuzzer; other code uses generate() and mutate().
//
//   generate.cpp          the case as a whole, and its arguments
//   generate_tensors.cpp  shapes, data types, layouts and contents of tensors
//   generate_values.cpp   numbers, arrays and Scalars
#pragma once

#include <initializer_list>
#include <limits>
#include <string_view>

#include "ops/fuzz/case.h"
#include "ops/fuzz/random.h"
#include "ops/fuzz/shape.h"

namespace softnpu::fuzz {

inline constexpr int64_t kHuge[] = {int64_t{1} << 31,
                                    (int64_t{1} << 31) - 1,
                                    -(int64_t{1} << 31),
                                    int64_t{1} << 32,
                                    int64_t{1} << 40,
                                    int64_t{1} << 62,
                                    std::numeric_limits<int64_t>::max(),
                                    std::numeric_limits<int64_t>::min(),
                                    1000};

inline constexpr int32_t kAllTypes[] = {ACL_FLOAT,     ACL_FLOAT16,     ACL_INT8,          ACL_INT32,      ACL_UINT8,
                                        ACL_INT16,     ACL_UINT16,      ACL_UINT32,        ACL_INT64,      ACL_UINT64,
                                        ACL_DOUBLE,    ACL_BOOL,        ACL_COMPLEX64,     ACL_COMPLEX128, ACL_BF16,
                                        ACL_COMPLEX32, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0};

// The device does not compute in these.
inline constexpr int32_t kForeignTypes[] = {ACL_DT_UNDEFINED, ACL_STRING, ACL_INT4, ACL_HIFLOAT8, 5, 28, 63, 64, 1000};

template <typename T, size_t kCount>
T pick_of(Random& random, const T (&values)[kCount]) {
  return values[random.below(static_cast<int64_t>(kCount))];
}

// Whether a name contains one of the words; upper and lower case are the same.
bool names(std::string_view name, std::initializer_list<std::string_view> words);

class Generator {
 public:
  Generator(Random& random, Case& one) : random_(random), case_(one) {}

  // Makes a new case of a function.
  void make(int function);
  // Changes one argument of the case.
  void change();

 private:
  enum class Strategy {
    kRelated,      // the same shape everywhere, or one that is close to it
    kTypical,      // matrices, images, volumes
    kIndependent,  // each tensor has a shape of its own
  };

  // Chooses what the arguments of a case have in common.
  void begin();
  // The same, but taken from a tensor of the case if it has one.
  void begin_from_case();
  void make_argument(const Parameter& parameter, Argument& argument);
  void change_argument(const Parameter& parameter, Argument& argument);
  void change_list(const Parameter& parameter, Argument& argument);

  bool chance(double probability) { return random_.chance(probability); }
  int64_t from_pool() { return pool_[random_.below(3)]; }

  Shape changed(Shape shape);
  Shape per_channel();
  Shape typical(const Parameter& parameter);
  Shape shape_for(const Parameter& parameter);
  int32_t dtype_for(const Parameter& parameter);
  Fill fill_for(const Parameter& parameter);
  void change_layout(Tensor& tensor, bool written);
  // Makes a tensor invalid: too little memory, huge or negative sizes, strides and offsets, an unknown format.
  void spoil(Tensor& tensor);
  void make_tensor(const Parameter& parameter, Tensor& tensor, bool may_be_null);
  void change_tensor(const Parameter& parameter, Tensor& tensor, bool may_be_null);

  int64_t dimension();
  int64_t integer_for(const Parameter& parameter);
  double real_for();
  void make_int_array(const Parameter& parameter, Argument& argument);
  void change_int_array(const Parameter& parameter, Argument& argument);
  void make_scalar(Scalar& scalar, bool may_be_null);
  void make_value(const Parameter& parameter, Argument& argument);

  Random& random_;
  Case& case_;
  Shape base_;
  int64_t pool_[3] = {};
  int32_t dtype_ = ACL_FLOAT;
  int32_t output_dtype_ = ACL_FLOAT;
  int list_size_ = 0;
  Strategy strategy_ = Strategy::kRelated;
};

}  // namespace softnpu::fuzz
