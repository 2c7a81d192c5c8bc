// torchvision's operators. torchvision defines their schemas; without it these kernels are never called. Checks and messages are
// those of torchvision's CPU kernels.
#include <ATen/TensorUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_dtype(const char* kernel, const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kDouble, '"', kernel,
                              "\" not implemented for '", dtype, "'");
}

at::Tensor nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold) {
  TORCH_CHECK(dets.dim() == 2, "boxes should be a 2d tensor, got ", dets.dim(), "D");
  TORCH_CHECK(dets.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", dets.size(1));
  TORCH_CHECK(scores.dim() == 1, "scores should be a 1d tensor, got ", scores.dim(), "D");
  TORCH_CHECK(dets.size(0) == scores.size(0), "boxes and scores should have same number of elements in dimension 0, got ",
              dets.size(0), " and ", scores.size(0));
  check_dtype("nms_kernel", dets);
  const DeviceScope scope(dets);
  const at::Tensor keep = empty({dets.size(0)}, at::kLong), count = empty({}, at::kLong);
  if (keep.numel() == 0) return keep;
  call::aclnnSoftNms(dets, scores, iou_threshold, keep, count);
  return keep.narrow(0, 0, count.item<int64_t>());
}

// ---- regions of interest ----

void check_boxes(const char* kernel, const at::Tensor& values, const char* name, const at::Tensor& rois) {
  TORCH_CHECK(rois.size(1) == 5, "rois must have shape as Tensor[K, 5]");
  at::checkAllSameType(kernel, {at::TensorArg(values, name, 1), at::TensorArg(rois, "rois", 2)});
  check_dtype(kernel, values);
  values.size(3);  // throws for a tensor with fewer dimensions, as torchvision does
}

int64_t channels_of_bins(const at::Tensor& input, int64_t pooled_height, int64_t pooled_width) {
  TORCH_CHECK(pooled_height > 0 && pooled_width > 0 && input.size(1) % (pooled_height * pooled_width) == 0,
              "input channels must be a multiple of pooling height * pooling width");
  return input.size(1) / (pooled_height * pooled_width);
}

// For each bin the channel that it is read from.
at::Tensor channel_mapping(const at::Tensor& bins) {
  const int64_t channels = bins.numel() == 0 ? 0 : bins.numel() / bins.size(0);
  const at::Tensor one = at::arange(channels, bins.options().dtype(at::kInt));
  return one.expand({bins.size(0), channels}).reshape(bins.sizes());
}

constexpr int64_t roi_end_mode(bool aligned) { return aligned ? 2 : 0; }

// The device takes the scale as a float. A scale that float would round is applied to the boxes instead.
struct Scaled {
  at::Tensor rois;
  double scale;

  Scaled(const at::Tensor& given, double spatial_scale) : rois(given), scale(spatial_scale) {
    if (given.scalar_type() != at::kDouble || spatial_scale == double(float(spatial_scale))) return;
    rois = given.clone();
    rois.narrow(1, 1, 4).mul_(spatial_scale);
    scale = 1;
  }
};

at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t pooled_height,
                     int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  check_boxes("roi_align_forward_kernel", input, "input", rois);
  const DeviceScope scope(input);
  at::Tensor out = empty({rois.size(0), input.size(1), pooled_height, pooled_width}, input.dtype());
  if (out.numel() == 0) return out;
  const Scaled boxes(rois, spatial_scale);
  call::aclnnROIAlign(input, boxes.rois, boxes.scale, pooled_height, pooled_width, std::max<int64_t>(sampling_ratio, 0),
                      roi_end_mode(aligned), out);
  return out;
}

at::Tensor roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, double spatial_scale, int64_t pooled_height,
                              int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height, int64_t width,
                              int64_t sampling_ratio, bool aligned) {
  check_boxes("roi_align_backward_kernel", grad, "grad", rois);
  const DeviceScope scope(grad);
  const std::array<int64_t, 4> sizes{batch_size, channels, height, width};
  at::Tensor out = empty(sizes, grad.dtype());
  if (grad.numel() == 0) return out.zero_();
  const Scaled boxes(rois, spatial_scale);
  call::aclnnROIAlignBackward(grad, boxes.rois, sizes, pooled_width, pooled_height, boxes.scale,
                              std::max<int64_t>(sampling_ratio, 0), roi_end_mode(aligned), out);
  return out;
}

TwoTensors ps_roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t pooled_height,
                        int64_t pooled_width, int64_t sampling_ratio) {
  check_boxes("ps_roi_align_forward_kernel", input, "input", rois);
  const int64_t channels = channels_of_bins(input, pooled_height, pooled_width);
  const DeviceScope scope(input);
  at::Tensor out = empty({rois.size(0), channels, pooled_height, pooled_width}, input.dtype());
  if (out.numel() > 0) call::aclnnSoftPsRoiAlign(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, out);
  return {out, channel_mapping(out)};
}

at::Tensor ps_roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& /*channel_mapping*/,
                                 double spatial_scale, int64_t /*pooled_height*/, int64_t /*pooled_width*/,
                                 int64_t sampling_ratio, int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  check_boxes("ps_roi_align_backward_kernel", grad, "grad", rois);
  const DeviceScope scope(grad);
  at::Tensor out = empty({batch_size, channels, height, width}, grad.dtype());
  if (grad.numel() == 0) return out.zero_();
  call::aclnnSoftPsRoiAlignBackward(grad, rois, spatial_scale, sampling_ratio, out);
  return out;
}

TwoTensors roi_pool(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t pooled_height,
                    int64_t pooled_width) {
  check_boxes("roi_pool_forward_kernel", input, "input", rois);
  const DeviceScope scope(input);
  at::Tensor out = empty({rois.size(0), input.size(1), pooled_height, pooled_width}, input.dtype());
  at::Tensor argmax = empty(out.sizes(), at::kInt);
  if (out.numel() > 0) call::aclnnSoftRoiPool(input, rois, spatial_scale, pooled_height, pooled_width, out, argmax);
  return {std::move(out), std::move(argmax)};
}

at::Tensor roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& argmax, double /*spatial_scale*/,
                             int64_t /*pooled_height*/, int64_t /*pooled_width*/, int64_t batch_size, int64_t channels,
                             int64_t height, int64_t width) {
  check_boxes("roi_pool_backward_kernel", grad, "grad", rois);
  const DeviceScope scope(grad);
  at::Tensor out = empty({batch_size, channels, height, width}, grad.dtype());
  if (grad.numel() == 0) return out.zero_();
  call::aclnnSoftRoiPoolBackward(grad, rois, argmax, out);
  return out;
}

TwoTensors ps_roi_pool(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t pooled_height,
                       int64_t pooled_width) {
  check_boxes("ps_roi_pool_forward_kernel", input, "input", rois);
  const int64_t channels = channels_of_bins(input, pooled_height, pooled_width);
  const DeviceScope scope(input);
  at::Tensor out = empty({rois.size(0), channels, pooled_height, pooled_width}, input.dtype());
  if (out.numel() > 0) call::aclnnSoftPsRoiPool(input, rois, spatial_scale, pooled_height, pooled_width, out);
  return {out, channel_mapping(out)};
}

at::Tensor ps_roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& /*channel_mapping*/,
                                double spatial_scale, int64_t /*pooled_height*/, int64_t /*pooled_width*/, int64_t batch_size,
                                int64_t channels, int64_t height, int64_t width) {
  check_boxes("ps_roi_pool_backward_kernel", grad, "grad", rois);
  const DeviceScope scope(grad);
  at::Tensor out = empty({batch_size, channels, height, width}, grad.dtype());
  if (grad.numel() == 0) return out.zero_();
  call::aclnnSoftPsRoiPoolBackward(grad, rois, spatial_scale, out);
  return out;
}

// ---- deformable convolution ----

struct Deform {
  std::array<int64_t, 2> stride, padding, dilation;
  int64_t groups, offset_groups;

  int64_t out_size(const at::Tensor& input, const at::Tensor& weight, int64_t dim) const {
    const size_t i = size_t(dim - 2);
    return (input.size(dim) + 2 * padding[i] - (dilation[i] * (weight.size(dim) - 1) + 1)) / stride[i] + 1;
  }
};

void check_grid(const char* name, const at::Tensor& tensor, int64_t channels, int64_t batch, int64_t height, int64_t width) {
  TORCH_CHECK(tensor.dim() == 4, name, " should have 4 dimensions, got ", tensor.dim());
  TORCH_CHECK(tensor.size(0) == batch, "invalid batch size of ", name);
  TORCH_CHECK(tensor.size(1) == channels, name, ".shape[1] is not valid: got: ", tensor.size(1), " expected: ", channels);
  TORCH_CHECK(tensor.size(2) == height && tensor.size(3) == width, name, " output dims: (", tensor.size(2), ", ", tensor.size(3),
              ") - computed output dims: (", height, ", ", width, ")");
}

void check(const Deform& how, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset, const at::Tensor& mask,
           bool use_mask) {
  TORCH_CHECK(input.dim() == 4, "Expected input_c.ndimension() == 4 to be true, but got false.");
  TORCH_CHECK(weight.dim() == 4, "Expected weight_c.ndimension() == 4 to be true, but got false.");
  const auto positive = [](std::array<int64_t, 2> pair) { return pair[0] > 0 && pair[1] > 0; };
  TORCH_CHECK(weight.size(2) > 0 && weight.size(3) > 0, "weight_h: ", weight.size(2), " weight_w: ", weight.size(3));
  TORCH_CHECK(positive(how.stride), "stride_h: ", how.stride[0], " stride_w: ", how.stride[1]);
  TORCH_CHECK(how.padding[0] >= 0 && how.padding[1] >= 0, "pad_h: ", how.padding[0], " pad_w: ", how.padding[1]);
  TORCH_CHECK(positive(how.dilation), "dilation_h: ", how.dilation[0], " dilation_w: ", how.dilation[1]);
  TORCH_CHECK(how.groups > 0 && how.offset_groups > 0, "groups: ", how.groups, " offset_groups: ", how.offset_groups);
  TORCH_CHECK(weight.size(1) * how.groups == input.size(1),
              "Expected weight_c.size(1) * n_weight_grps == input_c.size(1) to be true, but got false.");
  TORCH_CHECK(weight.size(0) % how.groups == 0, "Expected weight_c.size(0) % n_weight_grps == 0 to be true, but got false.");
  const int64_t taps = how.offset_groups * weight.size(2) * weight.size(3);
  const int64_t height = how.out_size(input, weight, 2), width = how.out_size(input, weight, 3);
  check_grid("offset", offset, 2 * taps, input.size(0), height, width);
  TORCH_CHECK(input.size(1) % how.offset_groups == 0, "Expected input_c.size(1) % n_offset_grps == 0 to be true, but got false.");
  if (use_mask) check_grid("mask", mask, taps, input.size(0), height, width);
  TORCH_CHECK(height > 0 && width > 0, "Calculated output size too small - out_h: ", height, " out_w: ", width);
  check_dtype("deformable_im2col", input);
  for (const at::Tensor& other : {weight, offset, use_mask ? mask : input}) {
    TORCH_CHECK(other.scalar_type() == input.scalar_type(), "expected scalar type ", input.scalar_type(), " but found ",
                other.scalar_type());
  }
}

at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset, const at::Tensor& mask,
                         const at::Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                         int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Deform how{{stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups, offset_groups};
  check(how, input, weight, offset, mask, use_mask);
  const DeviceScope scope(input);
  at::Tensor out = empty({input.size(0), weight.size(0), offset.size(2), offset.size(3)}, input.dtype());
  const at::Tensor shift = bias.view({1, weight.size(0), 1, 1});
  if (out.numel() == 0) return out;
  call::aclnnSoftDeformConv2d(input, weight, offset, use_mask ? TensorOrNone(mask) : std::nullopt, shift, how.stride, how.padding,
                              how.dilation, groups, offset_groups, out);
  return out;
}

FiveTensors deform_conv2d_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                   const at::Tensor& offset, const at::Tensor& mask, const at::Tensor& /*bias*/, int64_t stride_h,
                                   int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                                   int64_t groups, int64_t offset_groups, bool use_mask) {
  const Deform how{{stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups, offset_groups};
  check(how, input, weight, offset, mask, use_mask);
  const DeviceScope scope(grad);
  const auto like = [](const at::Tensor& tensor) { return empty(tensor.sizes(), tensor.dtype()); };
  at::Tensor grad_input = like(input), grad_weight = like(weight), grad_offset = like(offset), grad_mask = like(mask);
  at::Tensor grad_bias = grad.sum({0, 2, 3});
  if (input.size(0) == 0 || !use_mask) grad_mask.zero_();
  if (input.size(0) == 0) {
    grad_weight.zero_();
  } else {
    const auto optional = [&](const at::Tensor& tensor) { return use_mask ? TensorOrNone(tensor) : std::nullopt; };
    call::aclnnSoftDeformConv2dBackward(grad, input, weight, offset, optional(mask), how.stride, how.padding, how.dilation,
                                        groups, offset_groups, grad_input, grad_weight, grad_offset, optional(grad_mask));
  }
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_offset), std::move(grad_mask), std::move(grad_bias)};
}

// ---- autocast ----

// Computes in float32; results have the dtype of the first argument.
void in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const at::ScalarType dtype = arguments[0].toTensor().scalar_type();
  for (const c10::IValue& argument : arguments) {
    if (!argument.isTensor()) continue;
    const_cast<c10::IValue&>(argument) = at::autocast::cached_cast(at::kFloat, argument.toTensor(), at::kPrivateUse1);
  }
  op.callBoxed(stack);
  for (const c10::IValue& result : torch::jit::last(*stack, op.schema().returns().size())) {
    if (result.toTensor().is_floating_point()) const_cast<c10::IValue&>(result) = result.toTensor().to(dtype);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("nms", TORCH_FN(nms));
  m.impl("roi_align", TORCH_FN(roi_align));
  m.impl("_roi_align_backward", TORCH_FN(roi_align_backward));
  m.impl("ps_roi_align", TORCH_FN(ps_roi_align));
  m.impl("_ps_roi_align_backward", TORCH_FN(ps_roi_align_backward));
  m.impl("roi_pool", TORCH_FN(roi_pool));
  m.impl("_roi_pool_backward", TORCH_FN(roi_pool_backward));
  m.impl("ps_roi_pool", TORCH_FN(ps_roi_pool));
  m.impl("_ps_roi_pool_backward", TORCH_FN(ps_roi_pool_backward));
  m.impl("deform_conv2d", TORCH_FN(deform_conv2d));
  m.impl("_deform_conv2d_backward", TORCH_FN(deform_conv2d_backward));
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  for (const char* name : {"nms", "roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "deform_conv2d"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&in_float32>());
  }
}

}  // namespace torch_npu
