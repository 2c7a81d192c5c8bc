#include "ops/fuzz/generate.h"

#include <algorithm>

#include "ops/fuzz/generator.h"

namespace softnpu::fuzz {
namespace {

constexpr int32_t kUsualTypes[] = {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT, ACL_DOUBLE,    ACL_FLOAT16, ACL_BF16,
                                   ACL_INT64, ACL_INT32, ACL_BOOL,  ACL_COMPLEX64, ACL_INT8,    ACL_UINT8};

}  // namespace

bool names(std::string_view name, std::initializer_list<std::string_view> words) {
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::search(name.begin(), name.end(), word.begin(), word.end(), same) != name.end();
  });
}

void Generator::begin() {
  for (int64_t& size : pool_) size = random_.between(1, 4);
  if (chance(0.15)) pool_[random_.below(3)] = 0;
  if (chance(0.05)) pool_[random_.below(3)] = random_.pick({5, 8, 17, 33, 70});
  dtype_ = chance(0.85) ? pick_of(random_, kUsualTypes) : pick_of(random_, kAllTypes);
  output_dtype_ = chance(0.92) ? dtype_ : random_.pick<int32_t>({ACL_BOOL, ACL_INT64, ACL_INT32, ACL_FLOAT});
  list_size_ = static_cast<int>(chance(0.8) ? random_.between(1, 3) : random_.between(0, kMaxItems));
  strategy_ = chance(0.5) ? Strategy::kRelated : chance(0.6) ? Strategy::kTypical : Strategy::kIndependent;
  if (strategy_ == Strategy::kTypical) {
    for (const int64_t rank = random_.between(2, 5); base_.rank < rank;) base_.push(from_pool());
    for (int i = 2; i < base_.rank && base_.rank > 3; ++i) base_.sizes[i] = random_.between(2, 5);
  } else {
    for (const int64_t rank = chance(0.9) ? random_.between(0, 4) : 5; base_.rank < rank;) base_.push(from_pool());
  }
}

void Generator::begin_from_case() {
  begin();
  for (int i = 0; i < case_.tensor_count; ++i) {
    const Tensor& tensor = case_.tensors[i];
    if (tensor.is_null || chance(0.5)) continue;
    base_ = shape_of(tensor);
    dtype_ = output_dtype_ = tensor.dtype;
    for (int64_t& size : pool_) {
      if (base_.rank > 0) size = std::clamp<int64_t>(base_.sizes[random_.below(base_.rank)], 0, 70);
    }
    return;
  }
}

void Generator::make(int function) {
  case_ = Case();
  case_.function = function;
  begin();
  const auto parameters = function_of(case_).parameters;
  for (size_t i = 0; i < parameters.size(); ++i) make_argument(parameters[i], case_.arguments[i]);
  case_.destroys_early = chance(0.3);
  if (chance(0.04))
    case_.mode = random_.pick({Mode::kTwice, Mode::kTwice, Mode::kOnlyPhaseOne, Mode::kNullSize, Mode::kNullExecutor});
}

void Generator::change() {
  begin_from_case();
  const auto parameters = function_of(case_).parameters;
  if (parameters.empty() || chance(0.02)) {
    case_.mode = random_.pick({Mode::kOnce, Mode::kTwice, Mode::kOnlyPhaseOne});
    return;
  }
  const auto number = static_cast<size_t>(random_.below(static_cast<int64_t>(parameters.size())));
  change_argument(parameters[number], case_.arguments[number]);
}

void Generator::make_argument(const Parameter& parameter, Argument& argument) {
  argument = Argument();
  const bool is_object = parameter.kind < Kind::kInt64 || parameter.kind == Kind::kString;
  if (is_object && parameter.kind != Kind::kTensor && parameter.kind != Kind::kScalar) {
    argument.is_null = chance(parameter.optional ? 0.4 : 0.015);
  }
  switch (parameter.kind) {
    case Kind::kTensor:
      argument.first = case_.tensor_count++;
      return make_tensor(parameter, case_.tensors[argument.first], parameter.optional);
    case Kind::kTensorList: {
      const int64_t count = chance(0.9) ? list_size_ : random_.between(0, kMaxItems);
      argument.first = case_.tensor_count;
      argument.count = static_cast<int32_t>(count);
      case_.tensor_count += kMaxItems;  // room for a longer list
      for (int i = 0; i < count; ++i) make_tensor(parameter, case_.tensors[argument.first + i], parameter.optional_elements);
      return;
    }
    case Kind::kScalar:
      argument.first = case_.scalar_count++;
      return make_scalar(case_.scalars[argument.first], parameter.optional);
    case Kind::kScalarList:
      argument.first = case_.scalar_count;
      argument.count = list_size_;
      for (int i = 0; i < argument.count; ++i) make_scalar(case_.scalars[case_.scalar_count++], false);
      return;
    default:
      return make_value(parameter, argument);
  }
}

void Generator::change_argument(const Parameter& parameter, Argument& argument) {
  switch (parameter.kind) {
    case Kind::kTensor:
      return change_tensor(parameter, case_.tensors[argument.first], parameter.optional);
    case Kind::kTensorList:
      return change_list(parameter, argument);
    case Kind::kScalar:
      return make_scalar(case_.scalars[argument.first], parameter.optional);
    case Kind::kScalarList:
      if (argument.count > 0) make_scalar(case_.scalars[argument.first + random_.below(argument.count)], false);
      return;
    case Kind::kIntArray:
      return change_int_array(parameter, argument);
    default:
      argument.is_null = parameter.kind == Kind::kBoolArray && chance(0.1);
      return make_value(parameter, argument);
  }
}

void Generator::change_list(const Parameter& parameter, Argument& argument) {
  if (argument.count < kMaxItems && chance(0.15)) {
    Tensor& tensor = case_.tensors[argument.first + argument.count];
    if (argument.count > 0 && chance(0.7)) {
      tensor = case_.tensors[argument.first];
    } else {
      make_tensor(parameter, tensor, false);
    }
    ++argument.count;
  } else if (argument.count > 0 && chance(0.15)) {
    --argument.count;
  } else if (argument.count > 0) {
    change_tensor(parameter, case_.tensors[argument.first + random_.below(argument.count)], parameter.optional_elements);
  } else {
    argument.is_null = !argument.is_null;
  }
}

void generate(Random& random, int function, Case& one) {
  Generator(random, one).make(function);
  drop_unused(one);
}

void mutate(Random& random, Case& one) {
  Generator(random, one).change();
  drop_unused(one);
}

}  // namespace softnpu::fuzz
