#include "ops/fuzz/generate.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "ops/fuzz/shape.h"

namespace softnpu::fuzz {
namespace {

constexpr int64_t kHuge[] = {int64_t{1} << 31,
                             (int64_t{1} << 31) - 1,
                             -(int64_t{1} << 31),
                             int64_t{1} << 32,
                             int64_t{1} << 40,
                             int64_t{1} << 62,
                             std::numeric_limits<int64_t>::max(),
                             std::numeric_limits<int64_t>::min(),
                             1000};

constexpr int32_t kUsualTypes[] = {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT, ACL_DOUBLE,    ACL_FLOAT16, ACL_BF16,
                                   ACL_INT64, ACL_INT32, ACL_BOOL,  ACL_COMPLEX64, ACL_INT8,    ACL_UINT8};
constexpr int32_t kAllTypes[] = {ACL_FLOAT,     ACL_FLOAT16,     ACL_INT8,          ACL_INT32,      ACL_UINT8,
                                 ACL_INT16,     ACL_UINT16,      ACL_UINT32,        ACL_INT64,      ACL_UINT64,
                                 ACL_DOUBLE,    ACL_BOOL,        ACL_COMPLEX64,     ACL_COMPLEX128, ACL_BF16,
                                 ACL_COMPLEX32, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0};
// The device does not compute in these.
constexpr int32_t kForeignTypes[] = {ACL_DT_UNDEFINED, ACL_STRING, ACL_INT4, ACL_HIFLOAT8, 5, 28, 63, 64, 1000};

template <typename T, size_t kCount>
T pick_of(Random& random, const T (&values)[kCount]) {
  return values[random.below(static_cast<int64_t>(kCount))];
}

// Whether a name holds one of the words, upper or lower case.
bool names(std::string_view name, std::initializer_list<std::string_view> words) {
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::search(name.begin(), name.end(), word.begin(), word.end(), same) != name.end();
  });
}

bool holds_indices(std::string_view name) {
  return names(name, {"index", "indices", "inverse", "count", "argm", "offsets", "offset2bag", "bagSize", "target", "segments",
                      "batchSizes", "sorter", "repeats", "groupList", "keep"});
}
bool holds_int32(std::string_view name) { return name == "info" || name == "rank" || names(name, {"pivots"}); }
bool holds_truth(std::string_view name) { return names(name, {"mask", "condition"}); }
// One number per channel, as a rule.
bool is_per_channel(std::string_view name) {
  return names(name, {"weight", "bias", "gamma", "beta", "mean", "var", "std", "running", "save", "scale", "zeroPoint"});
}

class Generator {
 public:
  Generator(Random& random, Case& one) : random_(random), case_(one) {}

  // What arguments of a case have in common.
  void begin() {
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

  // Takes what an existing case has in common.
  void begin_from_case() {
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

  void make(int function) {
    case_ = Case();
    case_.function = function;
    begin();
    const auto parameters = function_of(case_).parameters;
    for (size_t i = 0; i < parameters.size(); ++i) make_argument(parameters[i], case_.arguments[i]);
    case_.destroys_early = chance(0.3);
    if (chance(0.04))
      case_.mode = random_.pick({Mode::kTwice, Mode::kTwice, Mode::kOnlyPhaseOne, Mode::kNullSize, Mode::kNullExecutor});
  }

  void change() {
    begin_from_case();
    const auto parameters = function_of(case_).parameters;
    if (parameters.empty() || chance(0.02)) {
      case_.mode = random_.pick({Mode::kOnce, Mode::kTwice, Mode::kOnlyPhaseOne});
      return;
    }
    const auto number = static_cast<size_t>(random_.below(static_cast<int64_t>(parameters.size())));
    change_argument(parameters[number], case_.arguments[number]);
  }

 private:
  enum class Strategy {
    kRelated,      // the same shape everywhere, or one that is close to it
    kTypical,      // matrices, images, volumes
    kIndependent,  //
  };

  bool chance(double probability) { return random_.chance(probability); }
  int64_t from_pool() { return pool_[random_.below(3)]; }

  // ---- shapes ----

  Shape changed(Shape shape) {
    const int64_t position = shape.rank > 0 ? random_.below(shape.rank) : 0;
    switch (shape.rank == 0 ? 1 : random_.below(10)) {
      case 0:  // without one dimension
        std::copy(shape.sizes + position + 1, shape.sizes + shape.rank, shape.sizes + position);
        --shape.rank;
        break;
      case 1:  // one more
        if (shape.rank == kMaxRank) break;
        std::copy_backward(shape.sizes + position, shape.sizes + shape.rank, shape.sizes + shape.rank + 1);
        shape.sizes[position] = chance(0.5) ? 1 : from_pool();
        ++shape.rank;
        break;
      case 2:
        shape.sizes[position] = 1;
        break;
      case 3:
        shape.sizes[position] = chance(0.5) ? 0 : wrapping_sum(shape.sizes[position], 1);
        break;
      case 4:
        shape.sizes[position] = chance(0.5) ? wrapping_product(shape.sizes[position], 2) : shape.sizes[position] / 2;
        break;
      case 5:
        std::swap(shape.sizes[position], shape.sizes[random_.below(shape.rank)]);
        break;
      case 6:  // a prefix
        shape.rank = static_cast<int>(position);
        break;
      case 7:  // a suffix
        std::copy(shape.sizes + position, shape.sizes + shape.rank, shape.sizes);
        shape.rank -= static_cast<int>(position);
        break;
      default:
        shape.sizes[position] = from_pool();
    }
    return shape;
  }

  Shape per_channel() {
    Shape shape;
    shape.push(base_.rank == 0 ? 1 : base_.rank > 1 && chance(0.6) ? base_.sizes[1] : base_.back());
    return shape;
  }

  Shape typical(const Parameter& parameter) {
    if (base_.rank <= 3 || !names(parameter.name, {"weight", "grid"})) {
      Shape shape = base_;
      // Products of matrices: any two sizes behind the batch.
      for (int i = std::max(0, base_.rank - 2); i < base_.rank && base_.rank <= 3; ++i) shape.sizes[i] = from_pool();
      return shape;
    }
    Shape shape = base_;
    shape.sizes[0] = from_pool();
    for (int i = 2; i < shape.rank; ++i) shape.sizes[i] = random_.between(1, 2);
    return shape;
  }

  Shape shape_for(const Parameter& parameter) {
    if (strategy_ != Strategy::kIndependent && is_per_channel(parameter.name) && chance(0.5)) return per_channel();
    switch (strategy_) {
      case Strategy::kRelated:
        if (chance(parameter.written ? 0.8 : 0.7)) return base_;
        return changed(base_);
      case Strategy::kTypical:
        if (chance(0.3)) return base_;
        return chance(0.8) ? typical(parameter) : changed(base_);
      case Strategy::kIndependent:
        break;
    }
    Shape shape;
    for (const int64_t rank = random_.between(0, 5); shape.rank < rank;) shape.push(chance(0.7) ? from_pool() : random_.below(5));
    return shape;
  }

  // ---- tensors ----

  int32_t dtype_for(const Parameter& parameter) {
    if (chance(0.02)) return pick_of(random_, kForeignTypes);
    if (chance(0.08)) return pick_of(random_, kAllTypes);
    if (chance(0.85)) {
      if (holds_int32(parameter.name)) return ACL_INT32;
      if (holds_indices(parameter.name)) return chance(0.75) ? ACL_INT64 : ACL_INT32;
      if (holds_truth(parameter.name)) return chance(0.75) ? ACL_BOOL : ACL_UINT8;
    }
    return parameter.written ? output_dtype_ : dtype_;
  }

  Fill fill_for(const Parameter& parameter) {
    if (holds_indices(parameter.name) && chance(0.5)) return chance(0.6) ? Fill::kZeros : Fill::kSorted;
    if (chance(0.75)) return Fill::kSmall;
    return random_.pick({Fill::kZeros, Fill::kOnes, Fill::kSorted, Fill::kSpecial, Fill::kSpecial});
  }

  void change_layout(Tensor& tensor, bool written) {
    const int64_t position = tensor.rank > 0 ? random_.below(tensor.rank) : 0;
    switch (tensor.rank == 0 ? 4 : random_.below(6)) {
      case 0: {  // transposed
        const int64_t other = random_.below(tensor.rank);
        std::swap(tensor.sizes[position], tensor.sizes[other]);
        set_dense(tensor);
        std::swap(tensor.sizes[position], tensor.sizes[other]);
        std::swap(tensor.strides[position], tensor.strides[other]);
        break;
      }
      case 1:  // every second element
        for (int i = 0; i < tensor.rank; ++i) tensor.strides[i] = wrapping_product(tensor.strides[i], 2);
        break;
      case 2:  // rows with gaps
        for (int i = 0; i < position; ++i) tensor.strides[i] = wrapping_sum(tensor.strides[i], random_.between(1, 3));
        break;
      case 3:
        if (!written || chance(0.1)) tensor.strides[position] = 0;
        break;
      case 4:
        tensor.offset = random_.between(1, 5);
        break;
      default:
        tensor.has_strides = false;
    }
  }

  // What no sensible client does.
  void spoil(Tensor& tensor) {
    const int64_t position = tensor.rank > 0 ? random_.below(tensor.rank) : 0;
    switch (random_.below(7)) {
      case 0:
        tensor.missing = random_.between(1, 16);
        break;
      case 1:
        tensor.has_memory = false;
        break;
      case 2:
        tensor.offset = chance(0.5) ? -1 : pick_of(random_, kHuge);
        break;
      case 3:
        tensor.sizes[position] = chance(0.5) ? -1 : pick_of(random_, kHuge);
        // A stride of 0 would make it a call that takes for ever.
        if (tensor.strides[position] == 0) tensor.strides[position] = 1;
        tensor.has_strides = true;
        break;
      case 4:
        tensor.strides[position] = chance(0.5) ? -1 : pick_of(random_, kHuge);
        break;
      case 5:
        tensor.format = random_.pick({-1, 0, 1, 3, 4, 29, 30, 47, 1000});
        break;
      default:
        tensor.rank = kMaxRank;
        for (int64_t& size : tensor.sizes) size = 1;
        set_dense(tensor);
    }
  }

  void make_tensor(const Parameter& parameter, Tensor& tensor, bool may_be_null) {
    tensor = Tensor();
    tensor.is_null = chance(may_be_null ? 0.4 : 0.015);
    tensor.dtype = dtype_for(parameter);
    set_shape(tensor, shape_for(parameter));
    tensor.fill = fill_for(parameter);
    tensor.fill_seed = static_cast<uint64_t>(random_.below(1000));
    if (chance(0.2)) change_layout(tensor, parameter.written);
    if (chance(0.01)) spoil(tensor);
    const auto number = static_cast<int>(&tensor - case_.tensors);
    if (number > 0 && chance(0.01)) tensor.shares = static_cast<int32_t>(random_.below(number));
  }

  void change_tensor(const Parameter& parameter, Tensor& tensor, bool may_be_null) {
    const Tensor& other = case_.tensors[random_.below(case_.tensor_count)];
    switch (random_.below(may_be_null ? 12 : 11)) {
      case 0:
        tensor.dtype = chance(0.9) ? pick_of(random_, kAllTypes) : pick_of(random_, kForeignTypes);
        break;
      case 1:
        change_layout(tensor, parameter.written);
        break;
      case 2:
        tensor.fill = random_.pick({Fill::kSmall, Fill::kZeros, Fill::kOnes, Fill::kSorted, Fill::kSpecial});
        tensor.fill_seed = static_cast<uint64_t>(random_.below(1000));
        break;
      case 3:
        spoil(tensor);
        break;
      case 4:
        if (&other < &tensor) tensor.shares = static_cast<int32_t>(&other - case_.tensors);
        break;
      case 5:
        set_shape(tensor, shape_of(other));
        break;
      case 6:
        make_tensor(parameter, tensor, may_be_null);
        break;
      case 11:
        tensor.is_null = !tensor.is_null;
        break;
      default:
        set_shape(tensor, changed(shape_of(tensor)));
    }
  }

  // ---- numbers ----

  int64_t dimension() { return base_.rank == 0 ? random_.between(-1, 0) : random_.between(-base_.rank, base_.rank - 1); }

  int64_t integer_for(const Parameter& parameter) {
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

  double real_for() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (chance(0.06)) return random_.pick({std::nan(""), kInfinity, -kInfinity, 1e300, -1e300, 1e-300, -0.0, 1e19});
    return random_.pick({0.0, 0.5, 1.0, 1.0, 2.0, 1.5, -1.0, 1e-5, 0.25, 0.9, 3.0});
  }

  void make_int_array(const Parameter& parameter, Argument& argument) {
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

  void make_scalar(Scalar& scalar, bool may_be_null) {
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

  void make_argument(const Parameter& parameter, Argument& argument) {
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

  void make_value(const Parameter& parameter, Argument& argument) {
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

  // ---- changes ----

  void change_argument(const Parameter& parameter, Argument& argument) {
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

  void change_list(const Parameter& parameter, Argument& argument) {
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

  void change_int_array(const Parameter& parameter, Argument& argument) {
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

  Random& random_;
  Case& case_;
  Shape base_;
  int64_t pool_[3] = {};
  int32_t dtype_ = ACL_FLOAT;
  int32_t output_dtype_ = ACL_FLOAT;
  int list_size_ = 0;
  Strategy strategy_ = Strategy::kRelated;
};

}  // namespace

void generate(Random& random, int function, Case& one) {
  Generator(random, one).make(function);
  drop_unused(one);
}

void mutate(Random& random, Case& one) {
  Generator(random, one).change();
  drop_unused(one);
}

}  // namespace softnpu::fuzz
