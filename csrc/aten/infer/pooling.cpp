// Shapes of pooling and unpooling.
#include <ATen/Context.h>
#include <ATen/native/Pool.h>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

namespace {

void check_pooled_gradient(const at::Tensor& grad_output, const at::Tensor& self, int64_t rank) {
  for (int64_t dim = 1; dim < grad_output.dim(); ++dim) {
    TORCH_CHECK(grad_output.size(dim) > 0, "adaptive_avg_pool", rank,
                "d_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has sizes ",
                grad_output.sizes(), " with dimension ", dim, " being empty");
  }
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "adaptive_avg_pool", rank, "d_backward(): Expected ", rank + 1,
              "D or ", rank + 2, "D tensor, but got ", self.sizes());
  TORCH_CHECK(self.dim() == grad_output.dim(), "Expected dimensions ", self.dim(), " for `grad_output` but got dimensions ",
              grad_output.dim());
  TORCH_CHECK(self.dtype() == grad_output.dtype(), "expected dtype ", self.dtype(), " for `grad_output` but got dtype ",
              grad_output.dtype());
}

struct Window {
  std::array<int64_t, 3> kernel, stride, padding, dilation;
};

std::array<int64_t, 3> three(at::IntArrayRef values) {
  return values.size() == 1 ? std::array{values[0], values[0], values[0]} : std::array{values[0], values[1], values[2]};
}

Window window_of(at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  const auto one_or_three = [](at::IntArrayRef values) { return values.size() == 1 || values.size() == 3; };
  TORCH_CHECK(one_or_three(kernel), "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
  TORCH_CHECK(stride.empty() || one_or_three(stride),
              "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
  TORCH_CHECK(one_or_three(padding), "max_pool3d: padding must either be a single int, or a tuple of three ints");
  TORCH_CHECK(one_or_three(dilation), "max_pool3d: dilation must be either a single int, or a tuple of three ints");
  return {three(kernel), three(stride.empty() ? kernel : stride), three(padding), three(dilation)};
}

// The output size, after PyTorch's checks.
std::array<int64_t, 3> pooled(const at::Tensor& self, const Window& window, bool ceil_mode) {
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "non-empty 4D or 5D (batch mode) tensor expected for input");
  const auto& [kernel, stride, padding, dilation] = window;
  std::array<int64_t, 3> sizes{};
  for (size_t axis = 0; axis < 3; ++axis) {
    sizes[axis] = at::native::pooling_output_shape<int64_t>(self.size(static_cast<int64_t>(axis) - 3), kernel[axis],
                                                            padding[axis], stride[axis], dilation[axis], ceil_mode);
  }
  const auto narrow = [](int64_t value) { return at::native::safe_downcast<int>(value); };
  at::native::pool3d_shape_check(self, self.size(-4), narrow(kernel[0]), narrow(kernel[1]), narrow(kernel[2]), narrow(stride[0]),
                                 narrow(stride[1]), narrow(stride[2]), narrow(padding[0]), narrow(padding[1]), narrow(padding[2]),
                                 narrow(dilation[0]), narrow(dilation[1]), narrow(dilation[2]), self.size(-3), self.size(-2),
                                 self.size(-1), sizes[0], sizes[1], sizes[2], "max_pool3d_with_indices_out_cpu_template()");
  return sizes;
}

// A volume of `sizes` in the memory format of `self`, which may have no batch dimension.
Output volume_like(const at::Tensor& self, at::IntArrayRef sizes) {
  Output output = sized(sizes, self.options());
  if (self.dim() == 5) {
    output.options = output.options.memory_format(self.suggest_memory_format());
  } else if (!self.is_contiguous() && self.unsqueeze(0).is_contiguous(at::MemoryFormat::ChannelsLast3d)) {
    const int64_t channels = sizes[0], rows = sizes[2], columns = sizes[3];
    output.strides = {1, rows * columns * channels, columns * channels, channels};
  }
  return output;
}

void check_unpool(const at::Tensor& self, const at::Tensor& indices, int64_t rank) {
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (", self.sizes(),
              ") but got indices tensor with shape: ", indices.sizes());
  for (int64_t dim = self.dim() - rank - 1; dim < self.dim(); ++dim) {
    TORCH_CHECK(self.size(dim) > 0, "max_unpooling", rank, "d_forward_out(): Expected input to have non-zero size for non-batch ",
                "dimensions, but got ", self.sizes(), " with dimension ", dim, " being empty.");
  }
}

}  // namespace

Outputs<1> adaptive_avg_pool(const at::Tensor& self, at::IntArrayRef output_size) {
  const auto rank = static_cast<int64_t>(output_size.size());
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "adaptive_avg_pool", rank, "d(): Expected ", rank + 1, "D or ",
              rank + 2, "D tensor, but got ", self.sizes());
  for (int64_t dim = self.dim() - rank; dim < self.dim(); ++dim) {
    TORCH_CHECK(self.size(dim) > 0, "adaptive_avg_pool", rank,
                "d(): Expected input to have non-zero size for non-batch dimensions, ", "but input has sizes ", self.sizes(),
                " with dimension ", dim, " being empty");
  }
  Output output = rank == 2 ? formatted_like(self) : sized(self.sizes(), self.options());
  std::copy(output_size.begin(), output_size.end(), output.sizes.end() - rank);
  return {output};
}

Outputs<1> adaptive_avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_pooled_gradient(grad_output, self, 2);
  return {formatted_like(self)};
}

Outputs<1> adaptive_avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_pooled_gradient(grad_output, self, 3);
  return {sized(self.sizes(), self.options())};
}

Outputs<2> max_pool3d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                      at::IntArrayRef dilation, bool ceil_mode) {
  const auto behind = pooled(self, window_of(kernel_size, stride, padding, dilation), ceil_mode);
  Sizes sizes(self.sizes());
  std::copy(behind.begin(), behind.end(), sizes.end() - 3);
  const Output values = volume_like(self, sizes);
  Output places = values;
  places.options = places.options.dtype(at::kLong);
  return {values, places};
}

Outputs<1> max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel_size,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode,
                               const at::Tensor& indices) {
  const auto sizes = pooled(self, window_of(kernel_size, stride, padding, dilation), ceil_mode);
  for (const at::Tensor* tensor : {&grad_output, &indices}) {
    at::check_dim_size(*tensor, self.dim(), self.dim() - 4, self.size(-4));
    for (int64_t axis = 0; axis < 3; ++axis) {
      at::check_dim_size(*tensor, self.dim(), self.dim() - 3 + axis, sizes[static_cast<size_t>(axis)]);
    }
  }
  return {volume_like(self, self.sizes())};
}

void fractional_max_pool(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                         const at::Tensor& random_samples) {
  const auto rank = static_cast<int64_t>(output_size.size());
  const bool has_shape = kernel_size.size() == output_size.size() && (self.dim() == rank + 1 || self.dim() == rank + 2);
  if (!has_shape) return;  // the shape function throws for it
  const int64_t batch = self.dim() == rank + 2 ? self.size(0) : 1;
  TORCH_CHECK(random_samples.scalar_type() == self.scalar_type(), "Expect _random_samples to have the same dtype as input");
  TORCH_CHECK(random_samples.dim() == 3, "Expect _random_samples to have 3 dimensions, got ", random_samples.dim());
  TORCH_CHECK(random_samples.size(0) >= batch, "Expect _random_samples.size(0) no less than the input's batch size ", batch,
              ", got ", random_samples.size(0));
  TORCH_CHECK(random_samples.size(1) == self.size(-rank - 1), "Expect _random_samples.size(1) equal to the input's channels ",
              self.size(-rank - 1), ", got ", random_samples.size(1));
  TORCH_CHECK(random_samples.size(2) == rank, "Expect _random_samples.size(2) equal to ", rank, ", got ", random_samples.size(2));
}

Outputs<1> max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size) {
  at::globalContext().alertNotDeterministic("max_unpooling2d_forward_out");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(output_size.size() == 2, "There should be exactly two elements (height, width) in output_size, but got ",
              output_size.size(), " elements.");
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4, "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with ",
              self.dim(), " dimensions.");
  check_unpool(self, indices, 2);
  Output output = self.dim() == 4 ? formatted_like(self) : sized(self.sizes(), self.options());
  std::copy(output_size.begin(), output_size.end(), output.sizes.end() - 2);
  return {output};
}

Outputs<1> max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size, at::IntArrayRef stride,
                        at::IntArrayRef padding) {
  at::globalContext().alertNotDeterministic("max_unpooling3d_forward_out");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with ",
              self.dim(), " dimensions.");
  TORCH_CHECK(output_size.size() == 3, "There should be exactly three elements (depth, height, width) in output_size, but got ",
              output_size.size(), " elements.");
  TORCH_CHECK(stride.size() == 3,
              "There should be exactly three elements (depth, height, width) in stride, but got: ", stride.size(), " elements.");
  TORCH_CHECK(padding.size() == 3,
              "There should be exactly three elements (depth, height, width) in padding, but got: ", padding.size(),
              " elements.");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "elements in indices should be type int64");
  check_unpool(self, indices, 3);
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0, "strides should be greater than zero, but got stride: ", stride);
  Output output = sized(self.sizes(), self.options());
  std::copy(output_size.begin(), output_size.end(), output.sizes.end() - 3);
  return {output};
}

}  // namespace torch_npu::infer
