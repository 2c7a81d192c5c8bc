// Shapes of convolutions, and of grid sampling, padding, im2col and col2im.
#include <ATen/native/ConvUtils.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/Padding.h>
#include <ATen/native/im2col_shape_check.h>

#include <algorithm>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

namespace {

struct NamedSizes {
  const char* name;
  at::IntArrayRef values;
};

void check_pairs(std::initializer_list<NamedSizes> pairs) {
  for (const auto& [name, values] : pairs) {
    TORCH_CHECK(values.size() == 2, "It is expected ", name, " equals to 2, but got size ", values.size());
  }
}

}  // namespace

at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

Outputs<1> convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& /*bias*/, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       int64_t groups) {
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  const at::ScalarType dtype = input.scalar_type();
  const bool is_narrow = at::isIntegralType(dtype, /*includeBool=*/true) && dtype != at::kLong;
  const bool is_dilated = std::ranges::any_of(dilation, [](int64_t step) { return step > 1; });
  TORCH_CHECK_NOT_IMPLEMENTED(!(transposed && is_narrow), "\"transposed convolution\" not implemented for '", dtype, "'");
  TORCH_CHECK_NOT_IMPLEMENTED(!(is_dilated && is_narrow), "\"slow_conv_dilated<>\" not implemented for '", dtype, "'");
  for (size_t axis = 0; axis < dilation.size(); ++axis) {
    TORCH_CHECK(dilation[axis] > 0, "non-positive dilation is not supported");
    TORCH_CHECK(!transposed || output_padding[axis] < std::max(stride[axis], dilation[axis]),
                "output padding must be smaller than either stride or dilation, but got output_padding: ", output_padding,
                " stride: ", stride, " dilation: ", dilation);
  }
  const auto sizes =
      transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride, dilation, groups)
                 : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  Output output = sized(sizes, input.options());
  output.options = output.options.memory_format(convolution_format(input, weight));
  return {output};
}

Outputs<1> im2col(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride) {
  check_pairs({{"kernel_size", kernel_size}, {"dilation", dilation}, {"padding", padding}, {"stride", stride}});
  at::native::im2col_shape_check(self, at::Tensor(), kernel_size[0], kernel_size[1], dilation[0], dilation[1], padding[0],
                                 padding[1], stride[0], stride[1]);
  int64_t columns = 1;
  for (int64_t axis = 0; axis < 2; ++axis) {
    const int64_t span = dilation[axis] * (kernel_size[axis] - 1) + 1;
    columns *= (self.size(axis - 2) + 2 * padding[axis] - span) / stride[axis] + 1;
  }
  Sizes sizes(self.sizes().slice(0, self.dim() - 3));
  sizes.push_back(self.size(-3) * kernel_size[0] * kernel_size[1]);
  sizes.push_back(columns);
  return {sized(sizes, self.options())};
}

Outputs<1> col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  check_pairs({{"output_size", output_size},
               {"kernel_size", kernel_size},
               {"dilation", dilation},
               {"padding", padding},
               {"stride", stride}});
  at::native::col2im_shape_check(self, at::Tensor(), output_size[0], output_size[1], kernel_size[0], kernel_size[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0], stride[1]);
  Sizes sizes(self.sizes().slice(0, self.dim() - 2));
  sizes.push_back(self.size(-2) / (kernel_size[0] * kernel_size[1]));
  sizes.append(output_size.begin(), output_size.end());
  return {sized(sizes, self.options())};
}

Outputs<1> channel_shuffle(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1), " channels and ",
              groups, " groups.");
  return {formatted_like(self)};
}

Outputs<1> reflection_pad2d(const at::Tensor& self, at::IntArrayRef padding) {
  at::native::padding::check_valid_input<2>(self, padding);
  const int64_t height = self.size(-2), width = self.size(-1);
  TORCH_CHECK(padding[0] < width && padding[1] < width && padding[2] < height && padding[3] < height,
              "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ", padding,
              " for input ", self.sizes());
  Output output = formatted_like(self);
  output.sizes[self.dim() - 2] += padding[2] + padding[3];
  output.sizes[self.dim() - 1] += padding[0] + padding[1];
  return {output};
}

Outputs<1> grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t /*interpolation_mode*/, int64_t /*padding_mode*/,
                        bool /*align_corners*/) {
  at::native::check_grid_sampler_common(input, grid);
  Output output = sized(input.sizes().slice(0, 2), input.options());
  output.sizes.append(grid.sizes().begin() + 1, grid.sizes().end() - 1);
  return {output};
}

Outputs<2> grid_sampler_backward(const at::Tensor& /*grad_output*/, const at::Tensor& input, const at::Tensor& grid,
                                 int64_t /*interpolation_mode*/, int64_t /*padding_mode*/, bool /*align_corners*/,
                                 std::array<bool, 2> output_mask) {
  Outputs<2> outputs{sized(input.sizes(), input.options()), sized(grid.sizes(), grid.options())};
  outputs[0].wanted = output_mask[0];
  return outputs;
}

}  // namespace torch_npu::infer
