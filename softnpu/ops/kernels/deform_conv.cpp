// Deformable convolution. Every tap of the filter has an offset of its own and is interpolated between pixels. The interpolated
// values become the columns of a matrix, which is multiplied with the filters.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "kernels.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr int64_t kColumnChannelsPerThread = 4;

struct Pair {
  int64_t y, x;
  explicit Pair(at::IntArrayRef values) : y(values[0]), x(values[1]) {
    TORCH_CHECK(values.size() == 2, "two numbers are expected");
  }
};

struct Deform {
  int64_t channels, height, width;  // of an image
  int64_t rows, columns;            // of a filter
  int64_t out_height, out_width;
  Pair stride, padding, dilation;
  int64_t groups, offset_groups;

  Deform(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset, const OptionalTensor& mask,
         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups, int64_t offset_groups)
      : stride(stride), padding(padding), dilation(dilation), groups(groups), offset_groups(offset_groups) {
    TORCH_CHECK(input.dim() == 4 && weight.dim() == 4 && offset.dim() == 4, "image, filter and offset have 4 dimensions");
    channels = input.size(1), height = input.size(2), width = input.size(3);
    rows = weight.size(2), columns = weight.size(3);
    out_height = offset.size(2), out_width = offset.size(3);
    TORCH_CHECK(groups > 0 && offset_groups > 0 && weight.size(1) * groups == channels && weight.size(0) % groups == 0 &&
                    channels % offset_groups == 0,
                "a filter of shape ", weight.sizes(), " in ", groups, " groups does not fit an image of shape ", input.sizes());
    TORCH_CHECK(offset.size(0) == input.size(0) && offset.size(1) == 2 * taps() * offset_groups, "offset of shape ",
                offset.sizes(), " does not fit the image and the filter");
    TORCH_CHECK(!wanted(mask) || (mask->dim() == 4 && mask->size(0) == input.size(0) && mask->size(1) == taps() * offset_groups &&
                                  mask->size(2) == out_height && mask->size(3) == out_width),
                "mask does not fit the offset");
  }

  int64_t taps() const { return rows * columns; }
  int64_t area() const { return height * width; }
  int64_t places() const { return out_height * out_width; }
  int64_t channels_per_group() const { return channels / offset_groups; }
};

// The four pixels around a point. The index of a pixel outside of the image is -1, and its value 0.
template <class T>
struct Point {
  std::array<int64_t, 4> places{-1, -1, -1, -1};
  T y{}, x{};  // distance from the first pixel

  Point(T at_y, T at_x, int64_t height, int64_t width) {
    const bool touches = at_y >= T(-1) && at_y < T(height) && at_x >= T(-1) && at_x < T(width);
    if (!touches) return;
    const auto top = static_cast<int64_t>(std::floor(at_y)), left = static_cast<int64_t>(std::floor(at_x));
    y = at_y - T(top), x = at_x - T(left);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t row = top + i / 2, column = left + i % 2;
      if (row >= 0 && row < height && column >= 0 && column < width) places[size_t(i)] = row * width + column;
    }
  }

  std::array<T, 4> weights() const { return {(T(1) - y) * (T(1) - x), (T(1) - y) * x, y * (T(1) - x), y * x}; }
  std::array<T, 4> pixels(const T* plane) const {
    std::array<T, 4> values{};
    for (size_t i = 0; i < 4; ++i) values[i] = places[i] < 0 ? T(0) : plane[places[i]];
    return values;
  }
  T read(const T* plane) const {
    const std::array<T, 4> w = weights(), v = pixels(plane);
    return w[0] * v[0] + w[1] * v[1] + w[2] * v[2] + w[3] * v[3];
  }
};

// The points that the taps of one image and one offset group read, tap after tap.
template <class T>
std::vector<Point<T>> points_of(const Deform& how, const T* offsets) {
  std::vector<Point<T>> points;
  points.reserve(size_t(how.taps() * how.places()));
  for (int64_t tap = 0; tap < how.taps(); ++tap) {
    // In double, because products with a large stride or dilation do not fit into an integer.
    const double row = double(tap / how.columns) * double(how.dilation.y) - double(how.padding.y),
                 column = double(tap % how.columns) * double(how.dilation.x) - double(how.padding.x);
    for (int64_t place = 0; place < how.places(); ++place) {
      const double y = double(place / how.out_width) * double(how.stride.y) + row,
                   x = double(place % how.out_width) * double(how.stride.x) + column;
      points.emplace_back(T(y) + offsets[2 * tap * how.places() + place], T(x) + offsets[(2 * tap + 1) * how.places() + place],
                          how.height, how.width);
    }
  }
  return points;
}

// One image, its offsets and its mask. `mask` may be null.
template <class T>
struct Image {
  const T* pixels;
  const T* offsets;
  const T* mask;

  T mask_at(int64_t place) const { return mask == nullptr ? T(1) : mask[place]; }
};

template <class T>
Image<T> image_of(const Deform& how, const at::Tensor& input, const at::Tensor& offset, const OptionalTensor& mask, int64_t n) {
  const int64_t per_mask = how.offset_groups * how.taps() * how.places();
  return {input.const_data_ptr<T>() + n * how.channels * how.area(), offset.const_data_ptr<T>() + n * 2 * per_mask,
          wanted(mask) ? mask->const_data_ptr<T>() + n * per_mask : nullptr};
}

// Fills the matrix (channels x taps, places) of an image.
template <class T>
void fill_columns(const Deform& how, const Image<T>& image, T* matrix) {
  const int64_t entries = how.taps() * how.places();
  for (int64_t group = 0; group < how.offset_groups; ++group) {
    const std::vector<Point<T>> points = points_of(how, image.offsets + 2 * group * entries);
    const int64_t first = group * how.channels_per_group();
    at::parallel_for(first, first + how.channels_per_group(), kColumnChannelsPerThread, [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        for (int64_t i = 0; i < entries; ++i) {
          matrix[channel * entries + i] =
              image.mask_at(group * entries + i) * points[size_t(i)].read(image.pixels + channel * how.area());
        }
      }
    });
  }
}

// Adds the gradients of an image, given that of its matrix.
template <class T>
void derive_columns(const Deform& how, const Image<T>& image, const T* grad, T* grad_pixels, T* grad_offsets, T* grad_mask) {
  const int64_t entries = how.taps() * how.places();
  for (int64_t group = 0; group < how.offset_groups; ++group) {
    const std::vector<Point<T>> points = points_of(how, image.offsets + 2 * group * entries);
    const int64_t first = group * how.channels_per_group(), last = first + how.channels_per_group();
    at::parallel_for(first, last, kColumnChannelsPerThread, [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        for (int64_t i = 0; i < entries; ++i) {
          const Point<T>& point = points[size_t(i)];
          const std::array<T, 4> weights = point.weights();
          const T part = image.mask_at(group * entries + i) * grad[channel * entries + i];
          for (size_t k = 0; k < 4; ++k) {
            if (point.places[k] >= 0) grad_pixels[channel * how.area() + point.places[k]] += weights[k] * part;
          }
        }
      }
    });
    at::parallel_for(0, entries, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Point<T>& point = points[size_t(i)];
        T along_y(0), along_x(0), along_mask(0);
        for (int64_t channel = first; channel < last; ++channel) {
          const T* const plane = image.pixels + channel * how.area();
          const std::array<T, 4> v = point.pixels(plane);
          const T part = grad[channel * entries + i];
          along_y += part * ((v[2] - v[0]) * (T(1) - point.x) + (v[3] - v[1]) * point.x);
          along_x += part * ((v[1] - v[0]) * (T(1) - point.y) + (v[3] - v[2]) * point.y);
          along_mask += part * point.read(plane);
        }
        const T factor = image.mask_at(group * entries + i);
        const int64_t tap = i / how.places(), place = i % how.places();
        grad_offsets[2 * group * entries + 2 * tap * how.places() + place] = factor * along_y;
        grad_offsets[2 * group * entries + (2 * tap + 1) * how.places() + place] = factor * along_x;
        if (grad_mask != nullptr) grad_mask[group * entries + i] = along_mask;
      }
    });
  }
}

OptionalTensor contiguous(const OptionalTensor& tensor) {
  return wanted(tensor) ? OptionalTensor(tensor->contiguous()) : std::nullopt;
}

}  // namespace

void deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset, const OptionalTensor& mask,
                   const at::Tensor& bias, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                   int64_t groups, int64_t offsetGroups, at::Tensor& out) {
  const Deform how(input, weight, offset, mask, stride, padding, dilation, groups, offsetGroups);
  const at::Tensor images = input.contiguous(), moves = offset.contiguous();
  const OptionalTensor factors = contiguous(mask);
  const at::Tensor filters = weight.reshape({groups, weight.size(0) / groups, weight.size(1) * how.taps()});
  write_contiguous(out, {input.size(0), weight.size(0), how.out_height, how.out_width}, [&](at::Tensor& result) {
    const at::Tensor matrix = at::empty({groups, filters.size(2), how.places()}, images.options());
    for (int64_t n = 0; n < images.size(0); ++n) {
      AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "deform_conv2d", [&] {
        fill_columns(how, image_of<scalar_t>(how, images, moves, factors, n), matrix.mutable_data_ptr<scalar_t>());
      });
      at::Tensor product = result[n].view({groups, filters.size(1), how.places()});
      at::bmm_out(product, filters, matrix);
    }
    result.add_(bias.view({1, weight.size(0), 1, 1}));
  });
}

void deform_conv2d_backward(const at::Tensor& gradOutput, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& offset, const OptionalTensor& mask, at::IntArrayRef stride, at::IntArrayRef padding,
                            at::IntArrayRef dilation, int64_t groups, int64_t offsetGroups, at::Tensor& gradInput,
                            at::Tensor& gradWeight, at::Tensor& gradOffset, const OptionalTensor& gradMask) {
  const Deform how(input, weight, offset, mask, stride, padding, dilation, groups, offsetGroups);
  TORCH_CHECK(gradInput.sizes() == input.sizes() && gradWeight.sizes() == weight.sizes() && gradOffset.sizes() == offset.sizes(),
              "each gradient must have the shape of its tensor");
  const at::Tensor images = input.contiguous(), moves = offset.contiguous();
  const OptionalTensor factors = contiguous(mask);
  const at::Tensor filters = weight.reshape({groups, weight.size(0) / groups, weight.size(1) * how.taps()});
  const at::Tensor grads = gradOutput.reshape({input.size(0), groups, filters.size(1), how.places()});
  const at::Tensor for_images = at::zeros_like(images), for_moves = at::zeros_like(moves);
  const at::Tensor for_factors = factors ? at::zeros_like(*factors) : at::Tensor();
  const at::Tensor for_filters = at::zeros_like(filters);
  const at::Tensor matrix = at::empty({groups, filters.size(2), how.places()}, images.options());
  for (int64_t n = 0; n < images.size(0); ++n) {
    const at::Tensor for_matrix = at::bmm(filters.transpose(1, 2), grads[n]).contiguous();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "deform_conv2d_backward", [&] {
      const Image<scalar_t> image = image_of<scalar_t>(how, images, moves, factors, n);
      fill_columns(how, image, matrix.mutable_data_ptr<scalar_t>());
      derive_columns(how, image, for_matrix.const_data_ptr<scalar_t>(), for_images[n].mutable_data_ptr<scalar_t>(),
                     for_moves[n].mutable_data_ptr<scalar_t>(), factors ? for_factors[n].mutable_data_ptr<scalar_t>() : nullptr);
    });
    for_filters.add_(at::bmm(grads[n], matrix.transpose(1, 2)));
  }
  gradInput.copy_(for_images);
  gradOffset.copy_(for_moves);
  gradWeight.copy_(for_filters.view(weight.sizes()));
  store(gradMask, for_factors);
}

}  // namespace softnpu::ops::kernels
