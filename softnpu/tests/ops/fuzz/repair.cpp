#include "ops/fuzz/repair.h"

#include <algorithm>
#include <string>

#include "ops/fuzz/shape.h"

namespace softnpu::fuzz {
namespace {

// The numbers in the last brackets of a text: [2, 3].
bool last_shape(std::string_view message, Shape& shape) {
  for (size_t end = message.rfind(']'); end != std::string_view::npos && end > 0; end = message.rfind(']', end - 1)) {
    const size_t begin = message.rfind('[', end);
    if (begin == std::string_view::npos) return false;
    shape = Shape();
    bool good = true;
    int64_t value = -1;
    for (const char letter : message.substr(begin + 1, end - begin)) {
      if (letter >= '0' && letter <= '9') {
        value = std::max<int64_t>(value, 0) * 10 + (letter - '0');
      } else if (letter == ',' || letter == ']') {
        good &= value >= 0 || (letter == ']' && shape.rank == 0);
        if (value >= 0) shape.push(value);
        value = -1;
      } else {
        good &= letter == ' ';
      }
      good &= value < (int64_t{1} << 40) && shape.rank < kMaxRank;
      if (!good) break;
    }
    if (good) return true;
  }
  return false;
}

// The tensor that "argument 'name'" or "argument 'name[1]'" names.
struct Named {
  Tensor* tensor = nullptr;
  Argument* array = nullptr;
};

Named named_argument(Case& one, std::string_view message) {
  constexpr std::string_view kWord = "argument '";
  const size_t begin = message.find(kWord);
  if (begin == std::string_view::npos) return {};
  std::string_view name = message.substr(begin + kWord.size());
  name = name.substr(0, name.find('\''));
  int item = 0;
  if (name.ends_with(']') && name.size() > 3) {
    item = name[name.size() - 2] - '0';
    name = name.substr(0, name.find('['));
  }
  const auto parameters = function_of(one).parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Argument& argument = one.arguments[i];
    if (name != parameters[i].name) continue;
    if (is_tensor(parameters[i].kind)) return {.tensor = &one.tensors[argument.first + std::clamp(item, 0, kMaxItems - 1)]};
    if (parameters[i].kind == Kind::kIntArray) return {.array = &argument};
  }
  return {};
}

// A shape that fits "should be as out[B..., K, 2], where B = [3, 4] and K = 5". Other sizes are random.
bool fitting_shape(Random& random, std::string_view message, Shape& shape) {
  constexpr std::string_view kWord = " should be as ";
  const size_t begin = message.find(kWord);
  if (begin == std::string_view::npos) return false;
  std::string_view pattern = message.substr(begin + kWord.size());
  const size_t end = pattern.find(']');
  if (end == std::string_view::npos) return false;
  const std::string_view known = pattern.substr(end + 1);
  pattern = pattern.substr(0, end).substr(pattern.find('[') + 1);
  shape = Shape();
  while (!pattern.empty()) {
    std::string_view item = pattern.substr(0, pattern.find(", "));
    pattern.remove_prefix(std::min(item.size() + 2, pattern.size()));
    const bool is_group = item.ends_with("...");
    item = item.substr(0, item.find("..."));
    const size_t place = known.find(" " + std::string(item) + " = ");
    Shape given;
    if (place == std::string_view::npos) {
      const bool is_number = !item.empty() && item[0] >= '0' && item[0] <= '9';
      for (int64_t i = is_group ? random.below(3) : 1; i > 0; --i) given.push(is_number ? item[0] - '0' : random.between(1, 4));
    } else {
      std::string_view value = known.substr(place + item.size() + 4);
      value = is_group ? value.substr(0, value.find(']') + 1) : value.substr(0, value.find_first_not_of("0123456789"));
      if (!last_shape(is_group ? std::string(value) : "[" + std::string(value) + "]", given)) return false;
    }
    for (int i = 0; i < given.rank; ++i) shape.push(given.sizes[i]);
  }
  return true;
}

// The output with the first shape of a message: "the output has shape [2, 3], the kernel gives [3, 2]".
Tensor* output_of_shape(Case& one, const Shape& shape) {
  const auto parameters = function_of(one).parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].written || !is_tensor(parameters[i].kind)) continue;
    const int count = parameters[i].kind == Kind::kTensor ? 1 : one.arguments[i].count;
    for (int item = 0; item < count; ++item) {
      Tensor& tensor = one.tensors[one.arguments[i].first + item];
      if (!tensor.is_null && tensor.rank == shape.rank && std::equal(shape.sizes, shape.sizes + shape.rank, tensor.sizes)) {
        return &tensor;
      }
    }
  }
  return nullptr;
}

struct TypeName {
  std::string_view name;
  int32_t dtype;
};
constexpr TypeName kTypeNames[] = {
    {"float32", ACL_FLOAT},       {"float64", ACL_DOUBLE},        {"float16", ACL_FLOAT16}, {"bfloat16", ACL_BF16},
    {"complex64", ACL_COMPLEX64}, {"complex128", ACL_COMPLEX128}, {"int64", ACL_INT64},     {"int32", ACL_INT32},
    {"int8", ACL_INT8},           {"uint8", ACL_UINT8},           {"bool", ACL_BOOL},
};

bool repair_dtype(Random& random, Case& one, std::string_view message, Tensor& tensor) {
  const size_t begin = message.find("may be ");
  if (begin == std::string_view::npos) return false;
  const std::string_view allowed = message.substr(begin);
  const auto count = static_cast<int64_t>(std::size(kTypeNames));
  const int64_t start = random.chance(0.6) ? 0 : random.below(count);
  const int32_t old = tensor.dtype;
  for (int64_t i = 0; i < count; ++i) {
    const TypeName& type = kTypeNames[(start + i) % count];
    const size_t found = allowed.find(type.name);
    if (found == std::string_view::npos || allowed[found - 1] != ' ') continue;
    for (int number = 0; number < one.tensor_count; ++number) {
      if (one.tensors[number].dtype == old) one.tensors[number].dtype = type.dtype;
    }
    return true;
  }
  return false;
}

}  // namespace

bool repair(Random& random, Case& one, std::string_view message) {
  Shape shape;
  const Named named = named_argument(one, message);
  Tensor* tensor = named.tensor;
  if (tensor != nullptr && repair_dtype(random, one, message, *tensor)) return true;
  if (fitting_shape(random, message, shape)) {
    if (named.array != nullptr) {
      named.array->count = shape.rank;
      std::copy_n(shape.sizes, shape.rank, named.array->integers);
    } else if (tensor != nullptr) {
      set_shape(*tensor, shape);
    }
    return tensor != nullptr || named.array != nullptr;
  }
  constexpr std::string_view kGives = ", the kernel gives ";
  if (const size_t middle = message.find(kGives);
      middle != std::string_view::npos && last_shape(message.substr(0, middle), shape)) {
    tensor = output_of_shape(one, shape);
  }
  if (tensor == nullptr || message.find("shape") == std::string_view::npos || !last_shape(message, shape)) return false;
  set_shape(*tensor, shape);
  return true;
}

}  // namespace softnpu::fuzz
