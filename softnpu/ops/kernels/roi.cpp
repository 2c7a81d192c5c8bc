// Regions of interest: a box of an image becomes a grid of bins. "align" computes the mean of bilinear samples in a bin, "pool"
// the maximum or the mean of its pixels. The position-sensitive forms ("ps") read another channel for each bin.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "kernels.h"
#include "ops/kernels/bounds.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {
namespace {

constexpr int64_t kBoxWidth = 5;
constexpr int64_t kChannelsPerThread = 16;
constexpr int64_t kHalfPixels = 2;  // a value of roiEndMode

struct Shape {
  int64_t height, width;
  int64_t area() const { return height * width; }
};

Shape plane_of(const at::Tensor& images) { return {images.size(2), images.size(3)}; }

bool has_half_pixels(int64_t roi_end_mode) {
  TORCH_CHECK(roi_end_mode == 0 || roi_end_mode == kHalfPixels, "roiEndMode has to be 0 or 2, it is ", roi_end_mode);
  return roi_end_mode == kHalfPixels;
}

// A copy: an output may overlap `rois`, and the checked image numbers must not change while the kernel writes.
at::Tensor checked_boxes(const at::Tensor& rois, const at::Tensor& images) {
  TORCH_CHECK(images.dim() == 4, "images have 4 dimensions, not ", images.dim());
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == kBoxWidth, "rois must have shape as Tensor[K, 5]");
  TORCH_CHECK(rois.scalar_type() == images.scalar_type(), "rois are of type ", rois.scalar_type(), ", images of type ",
              images.scalar_type());
  const at::Tensor boxes = rois.contiguous();
  if (boxes.size(0) > 0) check_bounds(boxes.select(1, 0).to(at::kLong), images.size(0));
  return boxes;
}

// ---- align ----

// Four pixels and their weights. All weights are 0 outside of the image.
template <class T>
struct Sample {
  std::array<int64_t, 4> places{-1, -1, -1, -1};
  std::array<T, 4> weights{};

  bool is_outside() const { return places[0] < 0; }
};

// The two pixels beside a coordinate, and the weight of the second one.
template <class T>
struct Between {
  int64_t low, high;
  T fraction;

  Between(T at, int64_t size) {
    at = std::max(at, T(0));
    low = static_cast<int64_t>(at);
    const bool is_last = low >= size - 1;
    if (is_last) low = size - 1;
    high = is_last ? low : low + 1;
    fraction = is_last ? T(0) : at - T(low);
  }
};

template <class T>
Sample<T> sample_at(T y, T x, Shape plane) {
  const bool inside = y >= T(-1) && y <= T(plane.height) && x >= T(-1) && x <= T(plane.width);
  if (!inside) return {};
  const Between<T> row(y, plane.height), column(x, plane.width);
  const T far_y = T(1) - row.fraction, far_x = T(1) - column.fraction;
  return {{row.low * plane.width + column.low, row.low * plane.width + column.high, row.high * plane.width + column.low,
           row.high * plane.width + column.high},
          {far_y * far_x, far_y * column.fraction, row.fraction * far_x, row.fraction * column.fraction}};
}

// The largest number of samples in all bins of a box; more would take longer than some seconds.
constexpr double kMostSamples = 1 << 26;

// One side of a box, divided into bins of `samples` samples. An inverted box has a negative sample count.
template <class T>
struct Side {
  T start, bin;
  int64_t samples;

  Side(T from, T to, T scale, bool half_pixels, int64_t bins, int64_t wanted) {
    const T shift = half_pixels ? T(0.5) : T(0);
    start = from * scale - shift;
    T size = to * scale - shift - start;
    if (!half_pixels) size = std::max(size, T(1));
    bin = size / T(bins);
    const double pixels = std::isfinite(double(bin)) ? std::ceil(double(bin)) : 0;
    samples = wanted > 0 ? wanted : static_cast<int64_t>(std::clamp(pixels, -kMostSamples, kMostSamples));
  }

  T at(int64_t index, int64_t sample) const { return start + T(index) * bin + T(sample + 0.5) * bin / T(samples); }
};

// All samples of a box, bin after bin.
template <class T>
struct Samples {
  int64_t per_bin, divisor;
  std::vector<Sample<T>> all;

  Samples(const T* box, double scale, bool half_pixels, Shape bins, int64_t wanted, Shape plane) {
    const Side<T> rows(box[2], box[4], T(scale), half_pixels, bins.height, wanted);
    const Side<T> columns(box[1], box[3], T(scale), half_pixels, bins.width, wanted);
    per_bin = std::max<int64_t>(rows.samples, 0) * std::max<int64_t>(columns.samples, 0);
    const double count = double(std::max<int64_t>(rows.samples, 0)) * double(columns.samples) * double(bins.area());
    TORCH_CHECK(count <= kMostSamples, "a box with ", count, " samples is too large");
    divisor = rows.samples * columns.samples;
    all.reserve(size_t(per_bin * bins.area()));
    for (int64_t row = 0; row < bins.height; ++row) {
      for (int64_t column = 0; column < bins.width; ++column) {
        for (int64_t y = 0; y < rows.samples; ++y) {
          for (int64_t x = 0; x < columns.samples; ++x) {
            all.push_back(sample_at(rows.at(row, y), columns.at(column, x), plane));
          }
        }
      }
    }
  }

  c10::ArrayRef<Sample<T>> of_bin(int64_t bin) const { return {all.data() + bin * per_bin, size_t(per_bin)}; }
};

struct Align {
  double scale;
  bool half_pixels;
  int64_t wanted;           // samples per bin and direction; 0: the number of pixels of the bin
  bool position_sensitive;  // each bin has its own channel

  int64_t channel(int64_t channel, int64_t bin, int64_t bins) const {
    return position_sensitive ? channel * bins + bin : channel;
  }
  // Without samples the mean of the position-sensitive form is NaN.
  int64_t divisor(int64_t given) const { return position_sensitive ? given : std::max<int64_t>(given, 1); }
};

// Calls visit(samples of a bin, their divisor, index of the bin in `bins`, index of its plane in `images`) for every bin. All
// bins of a channel are visited by one thread.
template <class T, class Visit>
void for_each_bin(const Align& how, const at::Tensor& rois, const at::Tensor& images, const at::Tensor& bins, Visit visit) {
  const Shape plane = plane_of(images), grid = plane_of(bins);
  const int64_t channels = bins.size(1);
  for (int64_t n = 0; n < rois.size(0); ++n) {
    const T* const box = rois.const_data_ptr<T>() + n * kBoxWidth;
    const Samples<T> samples(box, how.scale, how.half_pixels, grid, how.wanted, plane);
    const T divisor(how.divisor(samples.divisor));
    const int64_t first = static_cast<int64_t>(box[0]) * images.size(1);
    at::parallel_for(0, channels, kChannelsPerThread, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t bin = 0; bin < grid.area(); ++bin) {
          visit(samples.of_bin(bin), divisor, (n * channels + c) * grid.area() + bin,
                (first + how.channel(c, bin, grid.area())) * plane.area());
        }
      }
    });
  }
}

void align(const Align& how, const at::Tensor& self, const at::Tensor& rois, Shape grid, at::Tensor& out) {
  const at::Tensor images = self.contiguous(), boxes = checked_boxes(rois, self);
  const int64_t channels = how.position_sensitive ? self.size(1) / grid.area() : self.size(1);
  write_contiguous(out, {boxes.size(0), channels, grid.height, grid.width}, [&](at::Tensor& bins) {
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "roi_align", [&] {
      const scalar_t* const from = images.const_data_ptr<scalar_t>();
      scalar_t* const to = bins.mutable_data_ptr<scalar_t>();
      for_each_bin<scalar_t>(how, boxes, images, bins, [&](const auto& samples, scalar_t divisor, int64_t bin, int64_t plane) {
        scalar_t sum(0);
        for (const Sample<scalar_t>& sample : samples) {
          if (sample.is_outside()) continue;
          const auto& [places, weights] = sample;
          sum += weights[0] * from[plane + places[0]] + weights[1] * from[plane + places[1]] +
                 weights[2] * from[plane + places[2]] + weights[3] * from[plane + places[3]];
        }
        to[bin] = sum / divisor;
      });
    });
  });
}

void align_backward(const Align& how, const at::Tensor& grad, const at::Tensor& rois, at::Tensor& gradInput) {
  const at::Tensor bins = grad.contiguous(), boxes = checked_boxes(rois, gradInput);
  TORCH_CHECK(bins.dim() == 4 && bins.size(0) == boxes.size(0) && bins.scalar_type() == gradInput.scalar_type() &&
                  bins.size(1) * (how.position_sensitive ? plane_of(bins).area() : 1) <= gradInput.size(1),
              "a gradient of shape ", bins.sizes(), " does not fit to images of shape ", gradInput.sizes());
  write_contiguous(gradInput, gradInput.sizes(), [&](at::Tensor& images) {
    images.zero_();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "roi_align_backward", [&] {
      const scalar_t* const from = bins.const_data_ptr<scalar_t>();
      scalar_t* const to = images.mutable_data_ptr<scalar_t>();
      for_each_bin<scalar_t>(how, boxes, images, bins, [&](const auto& samples, scalar_t divisor, int64_t bin, int64_t plane) {
        for (const Sample<scalar_t>& sample : samples) {
          if (sample.is_outside()) continue;
          for (size_t i = 0; i < 4; ++i) to[plane + sample.places[i]] += from[bin] * sample.weights[i] / divisor;
        }
      });
    });
  });
}

// ---- pool ----

// The pixels of a bin.
struct Window {
  int64_t top, bottom, left, right;

  int64_t area() const { return std::max<int64_t>(bottom - top, 0) * std::max<int64_t>(right - left, 0); }
};

// One side of a box whose ends are rounded to whole pixels.
template <class T>
struct PixelSide {
  int64_t start;
  T bin;

  PixelSide(T from, T to, T scale, bool with_last, int64_t bins) {
    start = static_cast<int64_t>(std::round(from * scale));
    const int64_t end = static_cast<int64_t>(std::round(to * scale)) + (with_last ? 1 : 0);
    bin = T(std::max<int64_t>(end - start, 1)) / T(bins);
  }

  // [first, second) within [0, limit].
  std::pair<int64_t, int64_t> range(int64_t index, int64_t limit) const {
    const auto first = static_cast<int64_t>(std::floor(T(index) * bin)),
               second = static_cast<int64_t>(std::ceil(T(index + 1) * bin));
    return {std::clamp<int64_t>(first + start, 0, limit), std::clamp<int64_t>(second + start, 0, limit)};
  }
};

struct Pool {
  double scale;
  bool position_sensitive;  // then a box does not contain its last row and column
  Shape seen;               // the part of an image that is used
};

// The windows of a box, bin after bin.
template <class T>
std::vector<Window> windows_of(const Pool& how, const T* box, Shape grid) {
  const PixelSide<T> rows(box[2], box[4], T(how.scale), !how.position_sensitive, grid.height);
  const PixelSide<T> columns(box[1], box[3], T(how.scale), !how.position_sensitive, grid.width);
  std::vector<Window> windows;
  for (int64_t row = 0; row < grid.height; ++row) {
    for (int64_t column = 0; column < grid.width; ++column) {
      const auto [top, bottom] = rows.range(row, how.seen.height);
      const auto [left, right] = columns.range(column, how.seen.width);
      windows.push_back({top, bottom, left, right});
    }
  }
  return windows;
}

// Calls visit(index) for the pixels of a window, row after row.
template <class Visit>
void for_each_pixel(const Window& window, Shape plane, Visit visit) {
  for (int64_t y = window.top; y < window.bottom; ++y) {
    for (int64_t x = window.left; x < window.right; ++x) visit(y * plane.width + x);
  }
}

// Calls visit(pixels of a bin, index of the bin in `bins`, index of its plane in `images`) for every bin. All bins of a channel
// are visited by one thread.
template <class T, class Visit>
void for_each_window(const Pool& how, const at::Tensor& rois, const at::Tensor& images, const at::Tensor& bins, Visit visit) {
  const Shape plane = plane_of(images), grid = plane_of(bins);
  const int64_t channels = bins.size(1);
  for (int64_t n = 0; n < rois.size(0); ++n) {
    const T* const box = rois.const_data_ptr<T>() + n * kBoxWidth;
    const std::vector<Window> windows = windows_of(how, box, grid);
    const int64_t first = static_cast<int64_t>(box[0]) * images.size(1);
    at::parallel_for(0, channels, kChannelsPerThread, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t bin = 0; bin < grid.area(); ++bin) {
          const int64_t channel = how.position_sensitive ? c * grid.area() + bin : c;
          visit(windows[size_t(bin)], (n * channels + c) * grid.area() + bin, (first + channel) * plane.area());
        }
      }
    });
  }
}

}  // namespace

void roi_align(const at::Tensor& self, const at::Tensor& rois, double spatialScale, int64_t pooledHeight, int64_t pooledWidth,
               int64_t sampleNum, int64_t roiEndMode, at::Tensor& out) {
  align({spatialScale, has_half_pixels(roiEndMode), sampleNum, false}, self, rois, {pooledHeight, pooledWidth}, out);
}

void roi_align_backward(const at::Tensor& self, const at::Tensor& rois, at::IntArrayRef xdiffShape, int64_t pooledWidth,
                        int64_t pooledHeight, double spatialScale, int64_t sampleNum, int64_t roiEndMode, at::Tensor& out) {
  TORCH_CHECK(out.sizes() == xdiffShape, "out has the shape ", out.sizes(), ", but xdiffShape is ", xdiffShape);
  TORCH_CHECK(self.dim() == 4 && self.size(2) == pooledHeight && self.size(3) == pooledWidth, "a gradient of shape ",
              self.sizes(), " is not one of ", pooledHeight, " x ", pooledWidth, " bins");
  align_backward({spatialScale, has_half_pixels(roiEndMode), sampleNum, false}, self, rois, out);
}

void ps_roi_align(const at::Tensor& self, const at::Tensor& rois, double spatialScale, int64_t pooledHeight, int64_t pooledWidth,
                  int64_t sampleNum, at::Tensor& out) {
  align({spatialScale, true, sampleNum, true}, self, rois, {pooledHeight, pooledWidth}, out);
}

void ps_roi_align_backward(const at::Tensor& gradOutput, const at::Tensor& rois, double spatialScale, int64_t sampleNum,
                           at::Tensor& gradInput) {
  align_backward({spatialScale, true, sampleNum, true}, gradOutput, rois, gradInput);
}

void roi_pool(const at::Tensor& self, const at::Tensor& rois, double spatialScale, int64_t pooledHeight, int64_t pooledWidth,
              at::Tensor& out, at::Tensor& argmax) {
  const at::Tensor images = self.contiguous(), boxes = checked_boxes(rois, self);
  const std::array<int64_t, 4> sizes{boxes.size(0), self.size(1), pooledHeight, pooledWidth};
  const Shape plane = plane_of(images);
  const Pool how{spatialScale, false, plane};
  write_contiguous(out, sizes, [&](at::Tensor& bins) {
    write_contiguous(argmax, sizes, [&](at::Tensor& found) {
      AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "roi_pool", [&] {
        const scalar_t* const from = images.const_data_ptr<scalar_t>();
        scalar_t* const to = bins.mutable_data_ptr<scalar_t>();
        int32_t* const places = found.mutable_data_ptr<int32_t>();
        for_each_window<scalar_t>(how, boxes, images, bins, [&](const Window& window, int64_t bin, int64_t first) {
          scalar_t largest = window.area() == 0 ? scalar_t(0) : scalar_t(-std::numeric_limits<float>::max());
          int32_t place = -1;
          for_each_pixel(window, plane, [&](int64_t pixel) {
            if (!(from[first + pixel] > largest)) return;
            largest = from[first + pixel];
            place = int32_t(pixel);
          });
          to[bin] = largest;
          places[bin] = place;
        });
      });
    });
  });
}

void roi_pool_backward(const at::Tensor& gradOutput, const at::Tensor& rois, const at::Tensor& argmax, at::Tensor& gradInput) {
  const at::Tensor bins = gradOutput.contiguous(), boxes = checked_boxes(rois, gradInput), places = argmax.contiguous();
  const int64_t plane = plane_of(gradInput).area(), channels = gradInput.size(1);
  TORCH_CHECK(bins.dim() == 4 && bins.size(0) == boxes.size(0) && bins.size(1) == channels && places.sizes() == bins.sizes(),
              "a gradient of shape ", bins.sizes(), " does not fit to images of shape ", gradInput.sizes());
  if (places.numel() > 0) check_bounds(places, plane, -1);
  write_contiguous(gradInput, gradInput.sizes(), [&](at::Tensor& images) {
    images.zero_();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "roi_pool_backward", [&] {
      const scalar_t* const from = bins.const_data_ptr<scalar_t>();
      const int32_t* const found = places.const_data_ptr<int32_t>();
      scalar_t* const to = images.mutable_data_ptr<scalar_t>();
      const int64_t per_plane = plane_of(bins).area();
      for (int64_t bin = 0; bin < bins.numel(); ++bin) {
        if (found[bin] < 0) continue;
        const int64_t box = bin / (per_plane * channels), channel = bin / per_plane % channels;
        const auto image = static_cast<int64_t>(boxes.const_data_ptr<scalar_t>()[box * kBoxWidth]);
        to[(image * channels + channel) * plane + found[bin]] += from[bin];
      }
    });
  });
}

void ps_roi_pool(const at::Tensor& self, const at::Tensor& rois, double spatialScale, int64_t pooledHeight, int64_t pooledWidth,
                 at::Tensor& out) {
  const at::Tensor images = self.contiguous(), boxes = checked_boxes(rois, self);
  const Shape plane = plane_of(images);
  // As in torchvision the last row and column are not used, though the backward pass computes their gradient.
  const Pool how{spatialScale, true, {plane.height - 1, plane.width - 1}};
  const int64_t channels = self.size(1) / (pooledHeight * pooledWidth);
  write_contiguous(out, {boxes.size(0), channels, pooledHeight, pooledWidth}, [&](at::Tensor& bins) {
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "ps_roi_pool", [&] {
      const scalar_t* const from = images.const_data_ptr<scalar_t>();
      scalar_t* const to = bins.mutable_data_ptr<scalar_t>();
      for_each_window<scalar_t>(how, boxes, images, bins, [&](const Window& window, int64_t bin, int64_t first) {
        scalar_t sum(0);
        for_each_pixel(window, plane, [&](int64_t pixel) { sum += from[first + pixel]; });
        to[bin] = window.area() == 0 ? scalar_t(0) : sum / scalar_t(window.area());
      });
    });
  });
}

void ps_roi_pool_backward(const at::Tensor& gradOutput, const at::Tensor& rois, double spatialScale, at::Tensor& gradInput) {
  const at::Tensor bins = gradOutput.contiguous(), boxes = checked_boxes(rois, gradInput);
  TORCH_CHECK(bins.dim() == 4 && bins.size(0) == boxes.size(0) && bins.size(1) * plane_of(bins).area() <= gradInput.size(1),
              "a gradient of shape ", bins.sizes(), " does not fit to images of shape ", gradInput.sizes());
  const Shape plane = plane_of(gradInput);
  const Pool how{spatialScale, true, plane};
  write_contiguous(gradInput, gradInput.sizes(), [&](at::Tensor& images) {
    images.zero_();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(images.scalar_type(), "ps_roi_pool_backward", [&] {
      const scalar_t* const from = bins.const_data_ptr<scalar_t>();
      scalar_t* const to = images.mutable_data_ptr<scalar_t>();
      for_each_window<scalar_t>(how, boxes, images, bins, [&](const Window& window, int64_t bin, int64_t first) {
        if (window.area() == 0) return;
        const scalar_t part = from[bin] / scalar_t(window.area());
        for_each_pixel(window, plane, [&](int64_t pixel) { to[first + pixel] += part; });
      });
    });
  });
}

}  // namespace softnpu::ops::kernels
