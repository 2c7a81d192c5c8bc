// Computes the statistics of many tensors in one launch, with one pass over each tensor.
#include <ATen/Parallel.h>
#include <ATen/ops/abs.h>

#include <cmath>
#include <vector>

#include "kernels.h"
#include "ops/engine/loops.h"

namespace softnpu::ops::kernels {
namespace {

using engine::Summarise;
using engine::Summary;

constexpr int64_t kPiece = int64_t{1} << 16;  // elements in one piece of work of a thread

Summarise loop_of(at::ScalarType type) {
  const auto of = [](engine::Type row) { return engine::loops().summaries[int(row)]; };
  switch (type) {
    case at::kFloat:
      return of(engine::Type::kFloat);
    case at::kDouble:
      return of(engine::Type::kDouble);
    case at::kHalf:
      return of(engine::Type::kHalf);
    case at::kBFloat16:
      return of(engine::Type::kBFloat16);
    case at::kChar:
      return of(engine::Type::kInt8);
    case at::kByte:
      return of(engine::Type::kUInt8);
    case at::kShort:
      return of(engine::Type::kInt16);
    case at::kInt:
      return of(engine::Type::kInt32);
    case at::kLong:
      return of(engine::Type::kInt64);
    case at::kBool:
      return of(engine::Type::kBool);
    default:
      return nullptr;
  }
}

// The sums do not depend on the number of threads.
Summary summary_of(const at::Tensor& tensor) {
  at::Tensor values = tensor.is_complex() ? at::abs(tensor) : tensor;
  if (loop_of(values.scalar_type()) == nullptr) values = values.to(at::kDouble);
  if (!values.is_non_overlapping_and_dense()) values = values.contiguous();
  const Summarise loop = loop_of(values.scalar_type());
  const auto* const data = static_cast<const char*>(values.const_data_ptr());
  const int64_t count = values.numel();
  if (count <= kPiece) {
    Summary whole;
    loop(data, count, whole);
    return whole;
  }
  std::vector<Summary> parts(size_t((count + kPiece - 1) / kPiece));
  at::parallel_for(0, int64_t(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * kPiece;
      loop(data + first * values.element_size(), std::min(kPiece, count - first), parts[size_t(part)]);
    }
  });
  Summary whole;
  for (const Summary& part : parts) {
    whole.least = std::min(whole.least, part.least);
    whole.greatest = std::max(whole.greatest, part.greatest);
    whole.sum += part.sum;
    whole.squares += part.squares;
    whole.has_nan = whole.has_nan || part.has_nan;
  }
  return whole;
}

}  // namespace

void tensor_statistics(at::TensorList tensors, at::Tensor& out) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto rows = out.accessor<double, 2>();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Summary found = summary_of(tensors[i]);
    const bool is_empty = tensors[i].numel() == 0;
    auto row = rows[int64_t(i)];
    row[0] = is_empty || found.has_nan ? kNone : found.greatest;
    row[1] = is_empty || found.has_nan ? kNone : found.least;
    row[2] = is_empty ? kNone : found.sum / double(tensors[i].numel());
    row[3] = is_empty ? kNone : std::sqrt(found.squares);
  }
}

}  // namespace softnpu::ops::kernels
