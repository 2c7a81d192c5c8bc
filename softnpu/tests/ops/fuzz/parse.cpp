// Parses the text that describe() writes.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {
namespace {

class Parser {
 public:
  Parser(std::string_view text, Case& one) : rest_(text), case_(one) {}

  bool run() {
    case_ = Case();
    const auto table = functions();
    const std::string_view name = word();
    for (size_t i = 0; i < table.size(); ++i) {
      if (table[i].name != name) continue;
      case_.function = static_cast<int32_t>(i);
      const bool good = arguments(table[i].parameters) && skip(")") && mode() && rest_.empty();
      drop_unused(case_);
      return good;
    }
    return false;
  }

 private:
  bool skip(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  std::string_view word() {
    size_t count = 0;
    while (count < rest_.size() && (isalnum(static_cast<unsigned char>(rest_[count])) != 0 || rest_[count] == '_')) ++count;
    const std::string_view result = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return result;
  }

  bool integer(int64_t& value) {
    if (skip("INT64_MIN")) {
      value = std::numeric_limits<int64_t>::min();
      return true;
    }
    const std::string text(rest_.substr(0, 24));
    char* end = nullptr;
    value = strtoll(text.c_str(), &end, 10);
    rest_.remove_prefix(static_cast<size_t>(end - text.c_str()));
    return end != text.c_str();
  }

  template <typename T>
  bool number(T& value) {
    int64_t wide = 0;
    const bool good = integer(wide);
    value = static_cast<T>(wide);
    return good;
  }

  // strtod also reads NAN and INFINITY.
  bool real(double& value) {
    const std::string text(rest_.substr(0, 40));
    char* end = nullptr;
    value = strtod(text.c_str(), &end);
    rest_.remove_prefix(static_cast<size_t>(end - text.c_str()));
    return end != text.c_str();
  }

  // Values up to a closing bracket.
  template <typename Read>
  bool list(char closing, int limit, int32_t& count, Read read) {
    const std::string_view end(&closing, 1);
    for (count = 0; !skip(end); ++count) {
      if (count == limit || (count > 0 && !skip(", ")) || !read(count)) return false;
    }
    return true;
  }

  bool dtype(int32_t& value) {
    if (skip("(aclDataType)")) return number(value);
    const std::string_view name = word();
    for (const NamedType& type : named_types()) {
      if (type.name != name) continue;
      value = type.dtype;
      return true;
    }
    return false;
  }

  bool tensor(Tensor& tensor) {
    tensor = Tensor();
    if (skip("null")) {
      tensor.is_null = true;
      return true;
    }
    if (!dtype(tensor.dtype) || !skip("[")) return false;
    if (!list(']', kMaxRank, tensor.rank, [&](int i) { return integer(tensor.sizes[i]); })) return false;
    set_dense(tensor);
    if (skip(" no strides")) tensor.has_strides = false;
    int32_t count = 0;
    if (skip(" strides [") && !list(']', tensor.rank, count, [&](int i) { return integer(tensor.strides[i]); })) return false;
    if (skip(" offset ") && !integer(tensor.offset)) return false;
    if (skip(" format ") && !number(tensor.format)) return false;
    if (skip(" in the memory of tensor ") && !number(tensor.shares)) return false;
    if (skip(" without memory")) tensor.has_memory = false;
    if (skip(" less ") && (!integer(tensor.missing) || !skip(" bytes"))) return false;
    return fill(tensor);
  }

  bool fill(Tensor& tensor) {
    if (!skip(" ")) return false;
    const std::string_view name = word();
    for (int i = 0; i < static_cast<int>(std::size(kFillNames)); ++i) {
      if (name != kFillNames[i]) continue;
      tensor.fill = static_cast<Fill>(i);
      const bool is_random = tensor.fill == Fill::kSmall || tensor.fill == Fill::kSpecial;
      return !is_random || (skip(" ") && number(tensor.fill_seed));
    }
    return false;
  }

  bool scalar(Scalar& scalar) {
    scalar = Scalar();
    if (skip("null")) {
      scalar.is_null = true;
      return true;
    }
    if (!dtype(scalar.dtype) || !skip(" ") || !real(scalar.real)) return false;
    return !skip(" + ") || (real(scalar.imaginary) && skip("i"));
  }

  bool argument(const Parameter& parameter, Argument& argument) {
    const bool may_be_null = !is_tensor(parameter.kind) && parameter.kind != Kind::kScalar;
    if (may_be_null && skip("null")) {
      argument.is_null = true;
      return true;
    }
    switch (parameter.kind) {
      case Kind::kTensor:
        argument.first = case_.tensor_count++;
        return tensor(case_.tensors[argument.first]);
      case Kind::kTensorList:
        return tensors(argument);
      case Kind::kScalar:
        argument.first = case_.scalar_count++;
        return scalar(case_.scalars[argument.first]);
      case Kind::kScalarList:
        argument.first = case_.scalar_count;
        return skip("{") &&
               list('}', kMaxItems, argument.count, [&](int) { return scalar(case_.scalars[case_.scalar_count++]); });
      case Kind::kIntArray:
      case Kind::kBoolArray:
        return skip("{") && list('}', kMaxValues, argument.count, [&](int i) { return integer(argument.integers[i]); });
      case Kind::kFloatArray:
        return skip("{") && list('}', kMaxValues, argument.count, [&](int i) { return real(argument.reals[i]); });
      case Kind::kFloat:
      case Kind::kDouble:
        return real(argument.reals[0]);
      case Kind::kString:
        return skip("text ") && number(argument.text) && argument.text >= 0 && argument.text < kTextCount;
      case Kind::kDataType: {
        int32_t type = 0;
        const bool good = dtype(type);
        argument.integers[0] = type;
        return good;
      }
      default:
        return integer(argument.integers[0]);
    }
  }

  // Like generate(): with room for a longer list.
  bool tensors(Argument& argument) {
    argument.first = case_.tensor_count;
    case_.tensor_count += kMaxItems;
    argument.is_null = skip("null");
    return argument.is_null ||
           (skip("{") && list('}', kMaxItems, argument.count, [&](int i) { return tensor(case_.tensors[argument.first + i]); }));
  }

  bool arguments(std::span<const Parameter> parameters) {
    if (!skip("(")) return false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!skip(i == 0 ? "" : ", ") || !skip(parameters[i].name) || !skip("=")) return false;
      if (!argument(parameters[i], case_.arguments[i])) return false;
    }
    return true;
  }

  bool mode() {
    for (int i = 1; i < static_cast<int>(std::size(kModeNames)); ++i) {
      if (skip(kModeNames[i])) case_.mode = static_cast<Mode>(i);
    }
    case_.destroys_early = skip(kDestroysEarly);
    return true;
  }

  std::string_view rest_;
  Case& case_;
};

}  // namespace

bool parse(std::string_view text, Case& one) { return Parser(text, one).run(); }

}  // namespace softnpu::fuzz
