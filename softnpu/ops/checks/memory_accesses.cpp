// The memory ranges that a call reads and writes, for the race check of the runtime (runtime/checks/races.h).
#include <algorithm>
#include <array>

#include "ops/calls/executor.h"

namespace softnpu::ops {
namespace {

struct Dimension {
  int64_t size;
  int64_t stride;  // in bytes
};

// A view as runs of `bytes` without gaps, repeated along the dimensions.
struct Runs {
  size_t bytes = 0;
  int64_t count = 1;
  int rank = 0;
  std::array<Dimension, kMaxDimensions> dimensions;
};

Runs runs_of(const TensorView& view) {
  Runs runs;
  const int64_t item = item_size_of(view.dtype);
  for (int i = 0; i < view.ndim; ++i) {
    const bool repeats_itself = view.sizes[i] == 1 || view.strides[i] == 0;
    if (!repeats_itself) runs.dimensions[size_t(runs.rank++)] = {view.sizes[i], view.strides[i] * item};
  }
  const auto begin = runs.dimensions.begin();
  std::sort(begin, begin + runs.rank, [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  int64_t dense = item;
  int first = 0;
  for (; first < runs.rank && runs.dimensions[size_t(first)].stride <= dense; ++first) {
    dense += (runs.dimensions[size_t(first)].size - 1) * runs.dimensions[size_t(first)].stride;
  }
  runs.bytes = size_t(dense);
  std::copy(begin + first, begin + runs.rank, begin);
  runs.rank -= first;
  for (int i = 0; i < runs.rank && runs.count <= SOFTNPU_MOST_PIECES; ++i) runs.count *= runs.dimensions[size_t(i)].size;
  return runs;
}

void visit_view(const TensorView& view, int64_t bytes, uint32_t flags, SoftnpuAccessVisitor visitor, void* context) {
  if (bytes == 0) return;
  const Runs runs = runs_of(view);
  if (runs.count > SOFTNPU_MOST_PIECES) return visitor(context, view.data, size_t(bytes), flags);
  for (int64_t run = 0; run < runs.count; ++run) {
    int64_t offset = 0;
    int64_t rest = run;
    for (int i = 0; i < runs.rank; ++i) {
      const auto [size, stride] = runs.dimensions[size_t(i)];
      offset += rest % size * stride;
      rest /= size;
    }
    visitor(context, static_cast<const std::byte*>(view.data) + offset, runs.bytes, flags);
  }
}

}  // namespace

void visit_task(const void* payload, SoftnpuAccessVisitor visitor, void* context) {
  const Executor& executor = **static_cast<Executor* const*>(payload);
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    const uint32_t flags = parameter.written ? SOFTNPU_ACCESS_WRITES : 0;
    visit_view(executor.views[view], executor.places[view].bytes, flags, visitor, context);
  });
}

}  // namespace softnpu::ops
