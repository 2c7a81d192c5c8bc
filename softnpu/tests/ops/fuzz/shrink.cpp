#include "ops/fuzz/shrink.h"

#include <algorithm>

namespace softnpu::fuzz {
namespace {

void simplify_memory(Tensor& tensor) {
  tensor.shares = -1;
  tensor.missing = 0;
  tensor.has_memory = true;
  tensor.format = ACL_FORMAT_ND;
}

void simplify_layout(Tensor& tensor) {
  tensor.offset = 0;
  tensor.has_strides = true;
  set_dense(tensor);
}

void drop_dimension(Tensor& tensor, int position) {
  std::copy(tensor.sizes + position + 1, tensor.sizes + tensor.rank, tensor.sizes + position);
  std::copy(tensor.strides + position + 1, tensor.strides + tensor.rank, tensor.strides + position);
  --tensor.rank;
}

// Changes the size of one dimension. Dense tensors stay dense.
void resize(Tensor& tensor, int position, int64_t size) {
  Tensor dense = tensor;
  set_dense(dense);
  const bool is_dense = std::equal(dense.strides, dense.strides + dense.rank, tensor.strides);
  tensor.sizes[position] = size;
  if (is_dense) set_dense(tensor);
}

class Shrinker {
 public:
  Shrinker(Case& one, int attempts, const std::function<bool(const Case&)>& fails)
      : case_(one), attempts_(attempts), fails_(fails) {}

  void run() {
    attempt([](Case& one) {
      one.mode = Mode::kOnce;
      one.destroys_early = false;
    });
    attempt(
        [](Case& one) { std::for_each_n(one.tensors, one.tensor_count, [](Tensor& tensor) { tensor.fill = Fill::kZeros; }); });
    attempt([](Case& one) { std::for_each_n(one.tensors, one.tensor_count, simplify_layout); });
    attempt([](Case& one) { std::for_each_n(one.tensors, one.tensor_count, simplify_memory); });
    const auto parameters = function_of(case_).parameters;
    for (size_t i = 0; i < parameters.size(); ++i) shorten(parameters[i], i);
    for (int i = 0; i < case_.tensor_count; ++i) shrink_tensor(i);
    for (size_t i = 0; i < parameters.size(); ++i) simplify_numbers(parameters[i], i);
  }

 private:
  template <typename Change>
  void attempt(Change change) {
    if (attempts_ == 0) return;
    Case simpler = case_;
    change(simpler);
    drop_unused(simpler);
    if (describe(simpler) == describe(case_)) return;
    --attempts_;
    if (fails_(simpler)) case_ = simpler;
  }

  void shorten(const Parameter& parameter, size_t number) {
    if (parameter.kind == Kind::kTensor && parameter.optional) {
      attempt([=](Case& one) { one.tensors[one.arguments[number].first].is_null = true; });
    }
    if (is_single(parameter.kind)) return;
    while (case_.arguments[number].count > 0) {
      const int before = case_.arguments[number].count;
      attempt([=](Case& one) { --one.arguments[number].count; });
      if (case_.arguments[number].count == before) break;
    }
  }

  void shrink_tensor(int number) {
    const auto change = [&](auto body) { attempt([=](Case& one) { body(one.tensors[number]); }); };
    if (case_.tensors[number].is_null) return;
    change(simplify_layout);
    change(simplify_memory);
    change([](Tensor& tensor) { tensor.fill = Fill::kZeros; });
    for (int i = case_.tensors[number].rank; i-- > 0;) {
      const int rank = case_.tensors[number].rank;
      change([=](Tensor& tensor) { drop_dimension(tensor, i); });
      if (case_.tensors[number].rank < rank) continue;
      if (case_.tensors[number].sizes[i] > 1) change([=](Tensor& tensor) { resize(tensor, i, 1); });
      if (case_.tensors[number].sizes[i] > 2) change([=](Tensor& tensor) { resize(tensor, i, 2); });
    }
    change([](Tensor& tensor) { tensor.dtype = ACL_FLOAT; });
  }

  void simplify_numbers(const Parameter& parameter, size_t number) {
    const auto change = [&](auto body) { attempt([=](Case& one) { body(one.arguments[number]); }); };
    if (is_tensor(parameter.kind)) return;
    if (parameter.kind == Kind::kScalar) {
      attempt([=](Case& one) { one.scalars[one.arguments[number].first] = {.is_null = false, .dtype = ACL_FLOAT, .real = 1}; });
      return;
    }
    for (const int64_t value : {1, 0}) {
      const auto set = [=](Argument& argument) {
        std::fill(argument.integers, argument.integers + kMaxValues, value);
        std::fill(argument.reals, argument.reals + kMaxValues, static_cast<double>(value));
      };
      change(set);
    }
  }

  Case& case_;
  int attempts_;
  const std::function<bool(const Case&)>& fails_;
};

}  // namespace

void shrink(Case& one, int attempts, const std::function<bool(const Case&)>& fails) { Shrinker(one, attempts, fails).run(); }

}  // namespace softnpu::fuzz
