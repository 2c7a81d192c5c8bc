#include <algorithm>
#include <cmath>

#include "ops/fuzz/generator.h"

namespace softnpu::fuzz {

int64_t Generator::dimension() { return base_.rank == 0 ? random_.between(-1, 0) : random_.between(-base_.rank, base_.rank - 1); }

int64_t Generator::integer_for(const Parameter& parameter) {
  if (chance(0.04)) return pick_of(random_, kHuge);
  if (chance(0.1)) return random_.between(-3, 3);
  const std::string_view name = parameter.name;
  if (names(name, {"dim", "axis"}) && !names(name, {"size"})) return chance(0.9) ? dimension() : random_.between(-6, 6);
  if (names(name, {"group"})) return random_.between(1, 2);
  if (names(name, {"reduction", "mode", "type", "reduce", "normalization"})) return random_.between(0, 3);
  if (name == "quantMin") return random_.pick({0, -128, 0, 5});
  if (name == "quantMax") return random_.pick({255, 127, 15, -1});
  if (name == "N") return base_.rank > 0 ? base_.sizes[0] : 1;
  if (name == "C") return base_.rank > 1 ? base_.sizes[1] : 1;
  if (name == "HxW") {
    int64_t product = 1;
    for (int i = 2; i < base_.rank; ++i) product = wrapping_product(product, base_.sizes[i]);
    return product;
  }
  if (chance(0.3)) return from_pool();
  return random_.between(0, 4);
}

double Generator::real_for() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (chance(0.06)) return random_.pick({std::nan(""), kInfinity, -kInfinity, 1e300, -1e300, 1e-300, -0.0, 1e19});
  return random_.pick({0.0, 0.5, 1.0, 1.0, 2.0, 1.5, -1.0, 1e-5, 0.25, 0.9, 3.0});
}

void Generator::make_int_array(const Parameter& parameter, Argument& argument) {
  const std::string_view name = parameter.name;
  const int spatial = std::max(1, base_.rank - 2);
  const auto fill = [&](int count, auto value) {
    argument.count = std::clamp(count, 0, kMaxValues);
    for (int i = 0; i < argument.count; ++i) argument.integers[i] = value(i);
  };
  const int length = chance(0.85) ? spatial : static_cast<int>(random_.between(0, 5));
  if (chance(0.1)) {
    fill(static_cast<int>(random_.between(0, 5)), [&](int) { return random_.between(-3, 3); });
  } else if (names(name, {"outputSize", "inputSize"})) {
    const bool whole = names(name, {"input"}) ? chance(0.7) : chance(0.2);
    const int count = whole ? base_.rank : length;
    fill(count, [&](int i) { return i + base_.rank >= count ? base_.sizes[i + base_.rank - count] : 1; });
    if (chance(0.3)) fill(argument.count, [&](int) { return random_.between(1, 4); });
  } else if (names(name, {"shape"})) {
    const int count = base_.rank == 0 ? 0 : chance(0.5) ? base_.rank : static_cast<int>(random_.between(1, base_.rank));
    fill(count, [&](int i) { return base_.sizes[i + base_.rank - count]; });
  } else if (names(name, {"pad"})) {
    const int64_t value = random_.below(3) / 2;
    fill(chance(0.7) ? length : 2 * length, [&](int) { return chance(0.9) ? value : random_.between(0, 2); });
  } else if (names(name, {"kernel", "stride", "dilation"})) {
    const int64_t value = random_.between(1, 2);
    fill(length, [&](int) { return chance(0.9) ? value : random_.between(0, 3); });
  } else if (names(name, {"length"})) {
    fill(static_cast<int>(chance(0.7) && base_.rank > 1 ? base_.sizes[1] : random_.between(1, 3)),
         [&](int) { return random_.between(0, 3); });
  } else if (names(name, {"dim"})) {
    const int64_t first = dimension();
    fill(static_cast<int>(random_.between(0, std::max(1, base_.rank))),
         [&](int i) { return chance(0.9) ? first + i : dimension(); });
  } else {
    fill(static_cast<int>(chance(0.5) ? base_.rank : random_.between(0, 5)),
         [&](int) { return chance(0.8) ? random_.between(0, 2) : random_.between(-3, 3); });
  }
  if (argument.count > 0 && chance(0.03)) argument.integers[random_.below(argument.count)] = pick_of(random_, kHuge);
}

void Generator::change_int_array(const Parameter& parameter, Argument& argument) {
  argument.is_null = false;
  if (argument.count == 0 || chance(0.3)) return make_int_array(parameter, argument);
  int64_t& value = argument.integers[random_.below(argument.count)];
  switch (random_.below(6)) {
    case 0:
      --argument.count;
      break;
    case 1:
      if (argument.count < kMaxValues) ++argument.count;
      break;
    case 2:
      value = pick_of(random_, kHuge);
      break;
    case 3:
      value = from_pool();
      break;
    case 4:
      value = wrapping_sum(value, random_.pick({-1, 1}));
      break;
    default:
      value = random_.between(-3, 3);
  }
}

void Generator::make_scalar(Scalar& scalar, bool may_be_null) {
  scalar = Scalar();
  scalar.is_null = chance(may_be_null ? 0.3 : 0.015);
  const bool is_usual = chance(0.9);
  scalar.dtype = chance(0.4) ? random_.pick<int32_t>({ACL_DOUBLE, ACL_INT64, ACL_FLOAT, ACL_BOOL})
                 : is_usual  ? dtype_
                             : pick_of(random_, kAllTypes);
  if (chance(0.01)) scalar.dtype = pick_of(random_, kForeignTypes);
  scalar.real = chance(0.8) ? static_cast<double>(random_.between(0, 3)) : real_for();
  scalar.imaginary = real_for();
}

void Generator::make_value(const Parameter& parameter, Argument& argument) {
  switch (parameter.kind) {
    case Kind::kIntArray:
      return make_int_array(parameter, argument);
    case Kind::kBoolArray:
      argument.count = static_cast<int32_t>(chance(0.8) ? 3 : random_.between(0, 4));
      for (int i = 0; i < argument.count; ++i) argument.integers[i] = chance(0.7);
      return;
    case Kind::kFloatArray:
      argument.count = static_cast<int32_t>(random_.between(0, 4));
      for (int i = 0; i < argument.count; ++i) argument.reals[i] = real_for();
      return;
    case Kind::kFloat:
    case Kind::kDouble:
      argument.reals[0] = real_for();
      return;
    case Kind::kBool:
      argument.integers[0] = random_.below(2);
      return;
    case Kind::kString:
      argument.text = static_cast<int32_t>(random_.below(kTextCount));
      return;
    case Kind::kDataType:
      argument.integers[0] = chance(0.7) ? dtype_ : chance(0.8) ? pick_of(random_, kAllTypes) : pick_of(random_, kForeignTypes);
      return;
    default:
      argument.integers[0] = integer_for(parameter);
  }
}

}  // namespace softnpu::fuzz
