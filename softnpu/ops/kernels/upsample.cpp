#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward.h>
#include <ATen/ops/_upsample_nearest_exact1d.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward.h>
#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward.h>
#include <ATen/ops/_upsample_nearest_exact3d.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward.h>
#include <ATen/ops/grid_sampler_2d_backward.h>
#include <ATen/ops/grid_sampler_3d_backward.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_bicubic2d_backward.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_bilinear2d_backward.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/upsample_linear1d_backward.h>
#include <ATen/ops/upsample_nearest1d.h>
#include <ATen/ops/upsample_nearest1d_backward.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest2d_backward.h>
#include <ATen/ops/upsample_nearest3d.h>
#include <ATen/ops/upsample_nearest3d_backward.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <ATen/ops/upsample_trilinear3d_backward.h>
#include <ATen/ops/where.h>

#include "kernels.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {
namespace {

// Clients without a scale pass 0, and some of them 1.
std::optional<double> scale_of(double scale, int64_t input, int64_t output) {
  if (scale <= 0 || (scale == 1 && input != output)) return std::nullopt;
  constexpr double kFar = 1024;  // with a larger error of the scale ATen's kernels compute indices outside of the tensor
  const double ratio = scale * double(input) / double(output);
  TORCH_CHECK(ratio > 1 / kFar && ratio < kFar, "a scale of ", scale, " does not fit sizes ", input, " and ", output);
  return scale;
}

// The scale of spatial dimension `dim`; the first one after batch and channels is 0.
std::optional<double> scale_of(double scale, at::IntArrayRef input, at::IntArrayRef output, size_t dim) {
  TORCH_CHECK(input.size() == output.size() + 2 && dim < output.size(), "output sizes ", output, " do not fit input sizes ",
              input);
  return scale_of(scale, input[dim + 2], output[dim]);
}

// With antialiasing the kernel reads behind the input if the output is larger than the scale makes it.
std::optional<double> checked_scale_of(double scale, at::IntArrayRef input, at::IntArrayRef output, size_t dim) {
  const std::optional<double> used = scale_of(scale, input, output, dim);
  if (!used) return used;
  const double size = double(input[dim + 2]) * *used;
  TORCH_CHECK(double(output[dim]) <= size + 1, "a scale of ", *used, " changes size ", input[dim + 2], " to ", size,
              ", but the output has size ", output[dim]);
  return used;
}

}  // namespace

void upsample_nearest1d(const at::Tensor& self, at::IntArrayRef outputSize, at::Tensor& out) {
  at::upsample_nearest1d_out(out, self, outputSize);
}

void upsample_nearest1d_v2(const at::Tensor& self, at::IntArrayRef outputSize, double scaleL, at::Tensor& out) {
  at::upsample_nearest1d_out(out, self, outputSize, scale_of(scaleL, self.sizes(), outputSize, 0));
}

void upsample_nearest1d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize, double scales,
                                 at::Tensor& out) {
  at::upsample_nearest1d_backward_out(out, gradOut, outputSize, inputSize, scale_of(scales, inputSize, outputSize, 0));
}

void upsample_nearest2d(const at::Tensor& self, at::IntArrayRef outputSize, at::Tensor& out) {
  at::upsample_nearest2d_out(out, self, outputSize);
}

void upsample_nearest2d_v2(const at::Tensor& self, at::IntArrayRef outputSize, double scalesH, double scalesW, at::Tensor& out) {
  at::upsample_nearest2d_out(out, self, outputSize, scale_of(scalesH, self.sizes(), outputSize, 0),
                             scale_of(scalesW, self.sizes(), outputSize, 1));
}

void upsample_nearest2d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize, double scalesH,
                                 double scalesW, at::Tensor& gradInput) {
  at::upsample_nearest2d_backward_out(gradInput, gradOut, outputSize, inputSize, scale_of(scalesH, inputSize, outputSize, 0),
                                      scale_of(scalesW, inputSize, outputSize, 1));
}

void upsample_nearest3d(const at::Tensor& self, at::IntArrayRef outputSize, double scalesD, double scalesH, double scalesW,
                        at::Tensor& out) {
  at::upsample_nearest3d_out(out, self, outputSize, scale_of(scalesD, self.sizes(), outputSize, 0),
                             scale_of(scalesH, self.sizes(), outputSize, 1), scale_of(scalesW, self.sizes(), outputSize, 2));
}

void upsample_nearest3d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize, double scalesD,
                                 double scalesH, double scalesW, at::Tensor& gradInput) {
  at::upsample_nearest3d_backward_out(gradInput, gradOut, outputSize, inputSize, scale_of(scalesD, inputSize, outputSize, 0),
                                      scale_of(scalesH, inputSize, outputSize, 1), scale_of(scalesW, inputSize, outputSize, 2));
}

void upsample_nearest_exact1d(const at::Tensor& self, at::IntArrayRef outputSize, double scales, at::Tensor& out) {
  at::_upsample_nearest_exact1d_out(out, self, outputSize, scale_of(scales, self.sizes(), outputSize, 0));
}

void upsample_nearest_exact1d_backward(const at::Tensor& gradOutput, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                       double scales, at::Tensor& out) {
  at::_upsample_nearest_exact1d_backward_out(out, gradOutput, outputSize, inputSize, scale_of(scales, inputSize, outputSize, 0));
}

void upsample_nearest_exact2d(const at::Tensor& self, at::IntArrayRef outputSize, double scalesH, double scalesW,
                              at::Tensor& out) {
  at::_upsample_nearest_exact2d_out(out, self, outputSize, scale_of(scalesH, self.sizes(), outputSize, 0),
                                    scale_of(scalesW, self.sizes(), outputSize, 1));
}

void upsample_nearest_exact2d_backward(const at::Tensor& gradOutput, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                       double scalesH, double scalesW, at::Tensor& out) {
  at::_upsample_nearest_exact2d_backward_out(out, gradOutput, outputSize, inputSize, scale_of(scalesH, inputSize, outputSize, 0),
                                             scale_of(scalesW, inputSize, outputSize, 1));
}

void upsample_nearest_exact3d(const at::Tensor& self, at::IntArrayRef outputSize, double scalesD, double scalesH, double scalesW,
                              at::Tensor& out) {
  at::_upsample_nearest_exact3d_out(out, self, outputSize, scale_of(scalesD, self.sizes(), outputSize, 0),
                                    scale_of(scalesH, self.sizes(), outputSize, 1),
                                    scale_of(scalesW, self.sizes(), outputSize, 2));
}

void upsample_nearest_exact3d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                       double scalesD, double scalesH, double scalesW, at::Tensor& gradInput) {
  at::_upsample_nearest_exact3d_backward_out(
      gradInput, gradOut, outputSize, inputSize, scale_of(scalesD, inputSize, outputSize, 0),
      scale_of(scalesH, inputSize, outputSize, 1), scale_of(scalesW, inputSize, outputSize, 2));
}

void upsample_linear1d(const at::Tensor& self, at::IntArrayRef outputSize, bool alignCorners, double scales, at::Tensor& out) {
  at::upsample_linear1d_out(out, self, outputSize, alignCorners, scale_of(scales, self.sizes(), outputSize, 0));
}

void upsample_linear1d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                bool alignCorners, double scales, at::Tensor& out) {
  at::upsample_linear1d_backward_out(out, gradOut, outputSize, inputSize, alignCorners,
                                     scale_of(scales, inputSize, outputSize, 0));
}

void upsample_bilinear2d(const at::Tensor& self, at::IntArrayRef outputSize, bool alignCorners, double scalesH, double scalesW,
                         at::Tensor& out) {
  at::upsample_bilinear2d_out(out, self, outputSize, alignCorners, scale_of(scalesH, self.sizes(), outputSize, 0),
                              scale_of(scalesW, self.sizes(), outputSize, 1));
}

void upsample_bilinear2d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                  bool alignCorners, double scalesH, double scalesW, at::Tensor& out) {
  at::upsample_bilinear2d_backward_out(out, gradOut, outputSize, inputSize, alignCorners,
                                       scale_of(scalesH, inputSize, outputSize, 0), scale_of(scalesW, inputSize, outputSize, 1));
}

void upsample_bicubic2d(const at::Tensor& self, at::IntArrayRef outputSize, bool alignCorners, double scalesH, double scalesW,
                        at::Tensor& out) {
  at::upsample_bicubic2d_out(out, self, outputSize, alignCorners, scale_of(scalesH, self.sizes(), outputSize, 0),
                             scale_of(scalesW, self.sizes(), outputSize, 1));
}

void upsample_bicubic2d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                 bool alignCorners, double scalesH, double scalesW, at::Tensor& gradInput) {
  at::upsample_bicubic2d_backward_out(gradInput, gradOut, outputSize, inputSize, alignCorners,
                                      scale_of(scalesH, inputSize, outputSize, 0), scale_of(scalesW, inputSize, outputSize, 1));
}

void upsample_bilinear2d_aa(const at::Tensor& input, at::IntArrayRef outputSize, bool alignCorners, double scalesH,
                            double scalesW, at::Tensor& out) {
  at::_upsample_bilinear2d_aa_out(out, input, outputSize, alignCorners, checked_scale_of(scalesH, input.sizes(), outputSize, 0),
                                  checked_scale_of(scalesW, input.sizes(), outputSize, 1));
}

void upsample_bilinear2d_aa_backward(const at::Tensor& gradOutput, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                     bool alignCorners, double scalesH, double scalesW, at::Tensor& out) {
  at::_upsample_bilinear2d_aa_backward_out(out, gradOutput, outputSize, inputSize, alignCorners,
                                           checked_scale_of(scalesH, inputSize, outputSize, 0),
                                           checked_scale_of(scalesW, inputSize, outputSize, 1));
}

void upsample_bicubic2d_aa(const at::Tensor& x, at::IntArrayRef outputSize, bool alignCorners, double scalesH, double scalesW,
                           at::Tensor& out) {
  at::_upsample_bicubic2d_aa_out(out, x, outputSize, alignCorners, checked_scale_of(scalesH, x.sizes(), outputSize, 0),
                                 checked_scale_of(scalesW, x.sizes(), outputSize, 1));
}

void upsample_bicubic2d_aa_backward(const at::Tensor& gradOutput, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                    bool alignCorners, double scalesH, double scalesW, at::Tensor& out) {
  at::_upsample_bicubic2d_aa_backward_out(out, gradOutput, outputSize, inputSize, alignCorners,
                                          checked_scale_of(scalesH, inputSize, outputSize, 0),
                                          checked_scale_of(scalesW, inputSize, outputSize, 1));
}

void upsample_trilinear3d(const at::Tensor& self, at::IntArrayRef outputSize, bool alignCorners, double scalesD, double scalesH,
                          double scalesW, at::Tensor& out) {
  at::upsample_trilinear3d_out(out, self, outputSize, alignCorners, scale_of(scalesD, self.sizes(), outputSize, 0),
                               scale_of(scalesH, self.sizes(), outputSize, 1), scale_of(scalesW, self.sizes(), outputSize, 2));
}

void upsample_trilinear3d_backward(const at::Tensor& gradOut, at::IntArrayRef outputSize, at::IntArrayRef inputSize,
                                   bool alignCorners, double scalesD, double scalesH, double scalesW, at::Tensor& gradInput) {
  at::upsample_trilinear3d_backward_out(gradInput, gradOut, outputSize, inputSize, alignCorners,
                                        scale_of(scalesD, inputSize, outputSize, 0), scale_of(scalesH, inputSize, outputSize, 1),
                                        scale_of(scalesW, inputSize, outputSize, 2));
}

namespace {

// ATen's kernels turn a coordinate of NaN into an index.
at::Tensor without_nan(const at::Tensor& grid) { return at::where(grid.isnan(), at::scalar_tensor(-1, grid.options()), grid); }

}  // namespace

void grid_sampler_2d_backward(const at::Tensor& gradOutput, const at::Tensor& input, const at::Tensor& grid,
                              int64_t interpolationMode, int64_t paddingMode, bool alignCorners, at::IntArrayRef outputMask,
                              const std::optional<at::Tensor>& inputGrad, const std::optional<at::Tensor>& gridGrad) {
  const auto [for_input, for_grid] = at::grid_sampler_2d_backward(gradOutput, input, without_nan(grid), interpolationMode,
                                                                  paddingMode, alignCorners, flags<2>(outputMask));
  store(inputGrad, for_input);
  store(gridGrad, for_grid);
}

void grid_sampler_3d_backward(const at::Tensor& gradOutput, const at::Tensor& input, const at::Tensor& grid,
                              int64_t interpolationMode, int64_t paddingMode, bool alignCorners, at::IntArrayRef outputMask,
                              const std::optional<at::Tensor>& inputGrad, const std::optional<at::Tensor>& gridGrad) {
  const auto [for_input, for_grid] = at::grid_sampler_3d_backward(gradOutput, input, without_nan(grid), interpolationMode,
                                                                  paddingMode, alignCorners, flags<2>(outputMask));
  store(inputGrad, for_input);
  store(gridGrad, for_grid);
}

}  // namespace softnpu::ops::kernels
