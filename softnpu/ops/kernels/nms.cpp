// Non-maximum suppression: of boxes that overlap too much, only the box with the highest score is kept.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>

#include "kernels.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {
namespace {

template <class T>
struct Box {
  T left, top, right, bottom;

  T area() const { return (right - left) * (bottom - top); }

  // Area of the intersection over area of the union.
  T overlap(const Box& other) const {
    const T width = std::min(right, other.right) - std::max(left, other.left);
    const T height = std::min(bottom, other.bottom) - std::max(top, other.top);
    const T shared = std::max(width, T(0)) * std::max(height, T(0));
    return shared / (area() + other.area() - shared);
  }
};

// Writes the indices of the boxes that are kept, highest score first. Returns their number.
template <class T>
int64_t keep_best(const Box<T>* boxes, const int64_t* order, int64_t count, double threshold, int64_t* keep) {
  std::vector<bool> dropped(size_t(count), false);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (dropped[size_t(i)]) continue;
    keep[kept++] = order[i];
    for (int64_t j = i + 1; j < count; ++j) {
      if (!dropped[size_t(j)] && double(boxes[order[i]].overlap(boxes[order[j]])) > threshold) dropped[size_t(j)] = true;
    }
  }
  return kept;
}

}  // namespace

// `keep` has room for all boxes; the first `count` entries are written.
void nms(const at::Tensor& boxes, const at::Tensor& scores, double iouThreshold, at::Tensor& keep, at::Tensor& count) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4 && scores.sizes() == boxes.sizes().slice(0, 1),
              "boxes have the shape (N, 4) and scores (N), not ", boxes.sizes(), " and ", scores.sizes());
  const at::Tensor order = std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true)).contiguous();
  int64_t kept = 0;
  write_contiguous(keep, {boxes.size(0)}, [&](at::Tensor& places) {
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(boxes.scalar_type(), "nms", [&] {
      using T = at::opmath_type<scalar_t>;
      const at::Tensor corners = boxes.to(c10::CppTypeToScalarType<T>::value).contiguous();
      kept = keep_best(reinterpret_cast<const Box<T>*>(corners.const_data_ptr<T>()), order.const_data_ptr<int64_t>(),
                       boxes.size(0), iouThreshold, places.mutable_data_ptr<int64_t>());
    });
  });
  count.fill_(kept);
}

}  // namespace softnpu::ops::kernels
