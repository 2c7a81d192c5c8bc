// Products of quantized matrices, and products of many matrices in one launch.
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/mm.h>

#include "kernels.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {

namespace {

// A scale is one number for the matrix, or one for each row of x1 or column of x2.
at::Tensor along(const at::Tensor& scale, int64_t dim) {
  return scale.numel() == 1 ? scale.squeeze() : scale.flatten().unsqueeze(dim);
}

struct Scales {
  at::Tensor rows, columns;  // undefined if there is no scale
};

void multiply(const at::Tensor& a, const at::Tensor& b, const Scales& scales, at::Tensor out) {
  if (!scales.rows.defined()) {
    at::mm_out(out, a, b);
    return;
  }
  const bool one = scales.rows.numel() == 1 && scales.columns.numel() == 1;
  const at::Tensor rows = one ? scales.rows.squeeze() : scales.rows.flatten().expand(a.size(0)).unsqueeze(1).contiguous();
  const at::Tensor columns =
      one ? scales.columns.squeeze() : scales.columns.flatten().expand(b.size(1)).unsqueeze(0).contiguous();
  out.copy_(at::_scaled_mm(a, b, rows, columns, std::nullopt, std::nullopt, out.scalar_type()));
}

// The group types of aclnnGroupedMatmul: the dimension that the groups divide.
enum GroupType : int64_t { kNothing = -1, kRows = 0, kInner = 2 };

// The ends of the groups. The list holds the ends or the sizes.
std::vector<int64_t> ends_of(const at::Tensor& list, bool sizes, int64_t limit) {
  const at::Tensor values = list.to(at::kLong).contiguous();
  std::vector<int64_t> ends(values.const_data_ptr<int64_t>(), values.const_data_ptr<int64_t>() + values.numel());
  int64_t last = 0;
  for (int64_t& end : ends) {
    if (sizes) end += last;
    TORCH_CHECK(end >= last && end <= limit, "a group ends at ", end, ", but should end between ", last, " and ", limit);
    last = end;
  }
  return ends;
}

}  // namespace

void quant_matmul(const at::Tensor& x1, const at::Tensor& x2, const std::optional<at::Tensor>& x1Scale, const at::Tensor& x2Scale,
                  const std::optional<at::Tensor>& yScale, const std::optional<at::Tensor>& x1Offset,
                  const std::optional<at::Tensor>& x2Offset, const std::optional<at::Tensor>& yOffset,
                  const std::optional<at::Tensor>& bias, bool transposeX1, bool transposeX2, int64_t groupSize, at::Tensor& out) {
  TORCH_CHECK(!wanted(x1Offset) && !wanted(x2Offset) && !wanted(yOffset) && groupSize == 0,
              "offsets and scales of blocks are not offered");
  TORCH_CHECK(wanted(x1Scale), "x1Scale is expected");
  const at::Tensor a = transposeX1 ? x1.mT() : x1, b = transposeX2 ? x2.mT() : x2;
  at::_scaled_mm_out(out, a, b, along(*x1Scale, 1), along(x2Scale, 0), bias, yScale, out.scalar_type());
}

void grouped_matmul(at::TensorList x, at::TensorList weight, at::TensorList biasOptional, at::TensorList scaleOptional,
                    at::TensorList offsetOptional, at::TensorList antiquantScaleOptional, at::TensorList antiquantOffsetOptional,
                    at::TensorList perTokenScaleOptional, const std::optional<at::Tensor>& groupListOptional,
                    at::TensorList activationInputOptional, at::TensorList activationQuantScaleOptional,
                    at::TensorList activationQuantOffsetOptional, int64_t splitItem, int64_t groupType, int64_t groupListType,
                    int64_t actType, at::TensorList out, at::TensorList activationFeatureOutOptional,
                    at::TensorList dynQuantScaleOutOptional) {
  for (const at::TensorList unknown :
       {biasOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional, activationInputOptional,
        activationQuantScaleOptional, activationQuantOffsetOptional, activationFeatureOutOptional, dynQuantScaleOutOptional}) {
    TORCH_CHECK(unknown.empty() && actType == 0, "bias, offsets and activations are not offered");
  }
  TORCH_CHECK(scaleOptional.size() == perTokenScaleOptional.size(), "scales of both sides are expected, or none");
  const bool scaled = !scaleOptional.empty();
  if (groupType == kNothing) {
    TORCH_CHECK(x.size() == weight.size() && x.size() == out.size(), "x, weight and out must have the same length");
    for (size_t i = 0; i < x.size(); ++i) {
      multiply(x[i], weight[i], scaled ? Scales{perTokenScaleOptional[i], scaleOptional[i]} : Scales{}, out[i]);
    }
    return;
  }
  TORCH_CHECK((groupType == kRows || groupType == kInner) && splitItem >= 2 && x.size() == 1 && weight.size() == 1 &&
                  out.size() == 1 && wanted(groupListOptional),
              "one x, one weight, one out and the list of groups are expected");
  const std::vector<int64_t> ends = ends_of(*groupListOptional, groupListType == 1, x[0].size(groupType == kRows ? 0 : 1));
  const auto count = int64_t(ends.size());
  for (int64_t group = 0, begin = 0; group < count; begin = ends[group++]) {
    const int64_t end = ends[group];
    Scales scales;
    if (scaled) {
      scales.columns = scaleOptional[0].view({count, -1})[group];
      scales.rows =
          groupType == kRows ? perTokenScaleOptional[0].slice(0, begin, end) : perTokenScaleOptional[0].view({count, -1})[group];
    }
    if (groupType == kRows) {
      multiply(x[0].slice(0, begin, end), weight[0][group], scales, out[0].slice(0, begin, end));
    } else {
      multiply(x[0].slice(1, begin, end), weight[0].slice(0, begin, end), scales, out[0][group]);
    }
  }
}

}  // namespace softnpu::ops::kernels
