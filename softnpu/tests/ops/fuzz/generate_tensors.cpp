#include <algorithm>

#include "ops/fuzz/generator.h"

namespace softnpu::fuzz {
namespace {

bool holds_indices(std::string_view name) {
  return names(name, {"index", "indices", "inverse", "count", "argm", "offsets", "offset2bag", "bagSize", "target", "segments",
                      "batchSizes", "sorter", "repeats", "groupList", "keep"});
}
bool holds_int32(std::string_view name) { return name == "info" || name == "rank" || names(name, {"pivots"}); }
bool holds_truth(std::string_view name) { return names(name, {"mask", "condition"}); }
// Tensors with these names mostly hold one number per channel.
bool is_per_channel(std::string_view name) {
  return names(name, {"weight", "bias", "gamma", "beta", "mean", "var", "std", "running", "save", "scale", "zeroPoint"});
}

}  // namespace

Shape Generator::changed(Shape shape) {
  const int64_t position = shape.rank > 0 ? random_.below(shape.rank) : 0;
  switch (shape.rank == 0 ? 1 : random_.below(10)) {
    case 0:  // remove a dimension
      std::copy(shape.sizes + position + 1, shape.sizes + shape.rank, shape.sizes + position);
      --shape.rank;
      break;
    case 1:  // add a dimension
      if (shape.rank == kMaxRank) break;
      shape.push(chance(0.5) ? 1 : from_pool());
      std::rotate(shape.sizes + position, &shape.back(), shape.sizes + shape.rank);
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
    case 6:  // only the first dimensions
      shape.rank = static_cast<int>(position);
      break;
    case 7:  // only the last dimensions
      std::copy(shape.sizes + position, shape.sizes + shape.rank, shape.sizes);
      shape.rank -= static_cast<int>(position);
      break;
    default:
      shape.sizes[position] = from_pool();
  }
  return shape;
}

Shape Generator::per_channel() {
  Shape shape;
  shape.push(base_.rank == 0 ? 1 : base_.rank > 1 && chance(0.6) ? base_.sizes[1] : base_.back());
  return shape;
}

Shape Generator::typical(const Parameter& parameter) {
  if (base_.rank <= 3 || !names(parameter.name, {"weight", "grid"})) {
    Shape shape = base_;
    // Products of matrices: any two sizes after the batch.
    for (int i = std::max(0, base_.rank - 2); i < base_.rank && base_.rank <= 3; ++i) shape.sizes[i] = from_pool();
    return shape;
  }
  Shape shape = base_;
  shape.sizes[0] = from_pool();
  for (int i = 2; i < shape.rank; ++i) shape.sizes[i] = random_.between(1, 2);
  return shape;
}

Shape Generator::shape_for(const Parameter& parameter) {
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

int32_t Generator::dtype_for(const Parameter& parameter) {
  if (chance(0.02)) return pick_of(random_, kForeignTypes);
  if (chance(0.08)) return pick_of(random_, kAllTypes);
  if (chance(0.85)) {
    if (holds_int32(parameter.name)) return ACL_INT32;
    if (holds_indices(parameter.name)) return chance(0.75) ? ACL_INT64 : ACL_INT32;
    if (holds_truth(parameter.name)) return chance(0.75) ? ACL_BOOL : ACL_UINT8;
  }
  return parameter.written ? output_dtype_ : dtype_;
}

Fill Generator::fill_for(const Parameter& parameter) {
  if (holds_indices(parameter.name) && chance(0.5)) return chance(0.6) ? Fill::kZeros : Fill::kSorted;
  if (chance(0.75)) return Fill::kSmall;
  return random_.pick({Fill::kZeros, Fill::kOnes, Fill::kSorted, Fill::kSpecial, Fill::kSpecial});
}

void Generator::change_layout(Tensor& tensor, bool written) {
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

void Generator::spoil(Tensor& tensor) {
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

void Generator::make_tensor(const Parameter& parameter, Tensor& tensor, bool may_be_null) {
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

void Generator::change_tensor(const Parameter& parameter, Tensor& tensor, bool may_be_null) {
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

}  // namespace softnpu::fuzz
