#include "ops/calls/widening.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <vector>

namespace softnpu::ops {
namespace {

// A call runs in parts if the tensors that can be split have more elements. A part has at most as many, or one row.
constexpr int64_t kPartElements = int64_t{4} << 20;

bool is_half(aclDataType dtype) { return dtype == ACL_FLOAT16 || dtype == ACL_BF16; }
bool is_floating(aclDataType dtype) { return is_half(dtype) || dtype == ACL_FLOAT || dtype == ACL_DOUBLE; }
bool contains(uint64_t set, uint32_t view) { return view < 64 && (set >> view & 1) != 0; }

// The first floating tensor decides, so that a call in float32 costs one comparison.
bool is_widened(const Executor& executor) {
  const Widening* widening = executor.operation->widening;
  if (widening == nullptr) return false;
  const auto* first = std::ranges::find_if(executor.views, is_floating, &TensorView::dtype);
  if (first == executor.views.end()) return false;
  const aclDataType dtype = first->dtype;
  if (!is_half(dtype) || (widening->unless_native && multiplies_natively(dtype))) return false;
  bool fits = true;
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    const aclDataType other = executor.views[view].dtype;
    const bool allowed = other == dtype || !is_floating(other) || (widening->mixed && other == ACL_FLOAT);
    fits &= allowed || !parameter.is_read();
  });
  return fits;
}

at::Tensor empty_float(const at::Tensor& like) { return at::empty_like(like, like.options().dtype(at::kFloat)); }

// Keeps the order of the dimensions. Elements that an expanded tensor repeats are converted once.
at::Tensor to_float(const at::Tensor& tensor) {
  at::Tensor base = tensor;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) base = base.narrow(dim, 0, 1);
  }
  const at::Tensor wide = empty_float(base).copy_(base);
  return base.is_same(tensor) ? wide : wide.expand(tensor.sizes());
}

// One call, in one or several parts.
class WidenedRun {
 public:
  WidenedRun(const Executor& executor, at::Tensor* tensors)
      : executor_(executor),
        widening_(*executor.operation->widening),
        tensors_(tensors),
        used_(executor.views.size()),
        sums_(executor.views.size()) {}

  void operator()() {
    plan();
    for_each([&](const ParameterInfo& parameter, uint32_t view) {
      if (!parameter.written && !contains(split_, view)) used_[view] = input(tensors_[view]);
    });
    for (int64_t begin = 0; begin < rows_; begin += rows_of_part_) run_part(begin, std::min(rows_of_part_, rows_ - begin));
    for_each([&](const ParameterInfo&, uint32_t view) {
      if (sums_[view].defined()) tensors_[view].copy_(sums_[view]);
    });
  }

 private:
  template <class Visit>
  void for_each(Visit visit) const {
    for_each_view(executor_, [&](const ParameterInfo& parameter, uint32_t view) {
      if (executor_.views[view].dtype != ACL_DT_UNDEFINED) visit(parameter, view);
    });
  }

  // Decides which tensors are split, and into how many rows of their first dimension. A call that is not split has one row.
  void plan() {
    const uint64_t always = widening_.parts & ~widening_.broadcasts;
    const at::Tensor *first = nullptr, *result = nullptr;
    bool fits = true;
    for_each([&](const ParameterInfo& parameter, uint32_t view) {
      if (!contains(always, view)) return;
      const at::Tensor& tensor = tensors_[view];
      if (first == nullptr) first = &tensor;
      if (result == nullptr && parameter.written) result = &tensor;
      fits &= tensor.dim() > 0 && first->dim() > 0 && tensor.size(0) == first->size(0);
    });
    if (first == nullptr || !fits || first->size(0) < 2) return;
    int64_t elements = 0;
    uint64_t split = 0;
    for_each([&](const ParameterInfo&, uint32_t view) {
      const at::Tensor& tensor = tensors_[view];
      const bool has_rows = result != nullptr && tensor.dim() == result->dim() && tensor.size(0) == first->size(0);
      if (!contains(always, view) && !(contains(widening_.broadcasts, view) && has_rows)) return;
      split |= uint64_t{1} << view;
      elements += tensor.numel();
    });
    if (elements <= kPartElements) return;
    split_ = split;
    rows_ = first->size(0);
    rows_of_part_ = std::max<int64_t>(1, kPartElements / (elements / rows_));
  }

  static bool needs_float(const at::Tensor& tensor) { return at::isReducedFloatingType(tensor.scalar_type()); }
  static at::Tensor input(const at::Tensor& tensor) { return needs_float(tensor) ? to_float(tensor) : tensor; }

  void run_part(int64_t begin, int64_t count) {
    const auto part = [&](uint32_t view) {
      return contains(split_, view) ? tensors_[view].narrow(0, begin, count) : tensors_[view];
    };
    for_each([&](const ParameterInfo& parameter, uint32_t view) {
      if (parameter.written) {
        used_[view] = output(parameter, view, part(view));
      } else if (contains(split_, view)) {
        used_[view] = input(part(view));
      }
    });
    executor_.operation->run(Arguments(executor_, used_.data()));
    for_each([&](const ParameterInfo& parameter, uint32_t view) {
      if (!parameter.written) return;
      if (is_sum(view)) {
        if (begin > 0) sums_[view].add_(used_[view]);
      } else if (widening_.outputs && needs_float(tensors_[view])) {
        part(view).copy_(used_[view]);
      }
    });
  }

  // An output that has no rows, such as the gradient of a weight, is the sum over the parts.
  bool is_sum(uint32_t view) const { return split_ != 0 && !contains(split_, view); }

  at::Tensor output(const ParameterInfo& parameter, uint32_t view, const at::Tensor& part) {
    if (is_sum(view)) {
      at::Tensor result = needs_float(part) ? empty_float(part) : at::empty_like(part);
      if (!sums_[view].defined()) sums_[view] = result;
      return result;
    }
    if (!widening_.outputs || !needs_float(part)) return part;
    return parameter.is_read() ? to_float(part) : empty_float(part);
  }

  const Executor& executor_;
  const Widening& widening_;
  at::Tensor* const tensors_;
  std::vector<at::Tensor> used_;
  std::vector<at::Tensor> sums_;
  uint64_t split_ = 0;
  int64_t rows_ = 1;
  int64_t rows_of_part_ = 1;
};

}  // namespace

void run_operation(const Executor& executor, at::Tensor* tensors) {
  if (is_widened(executor)) {
    WidenedRun(executor, tensors)();
  } else {
    executor.operation->run(Arguments(executor, tensors));
  }
}

bool multiplies_natively(aclDataType dtype) {
#if defined(__x86_64__)
  // Processors with AMX have these too.
  static const bool bfloat16 = __builtin_cpu_supports("avx512bf16") != 0;
  static const bool float16 = __builtin_cpu_supports("avx512fp16") != 0;
  return dtype == ACL_BF16 ? bfloat16 : dtype == ACL_FLOAT16 && float16;
#else
  return false;
#endif
}

}  // namespace softnpu::ops
