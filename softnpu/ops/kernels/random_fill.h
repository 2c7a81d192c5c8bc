// Fills a tensor with random values by position: the value of element i comes from word i, or from pair i of words.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>

#include "ops/kernels/philox.h"

namespace softnpu::ops::kernels {

inline Stream stream_of(int64_t seed, int64_t offset) { return {uint64_t(seed), uint64_t(offset)}; }

// Calls f(first, count, words) with the words of elements [first, first + count), on several threads.
template <class F>
void for_words(Stream stream, int64_t elements, int64_t words_per_element, F f) {
  const int64_t per_batch = int64_t(kBatch) / words_per_element;
  const int64_t batches = (elements + per_batch - 1) / per_batch;
  at::parallel_for(0, batches, 256, [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) {
      const int64_t first = batch * per_batch;
      f(first, std::min(per_batch, elements - first), words_at(stream, uint64_t(batch)));
    }
  });
}

// Fills dense memory of type T. f turns a word into a value.
template <class T, class F>
void fill_from_words(T* data, int64_t elements, Stream stream, F f) {
  for_words(stream, elements, 1, [&](int64_t first, int64_t count, const Words& words) {
    for (int64_t i = 0; i < count; ++i) data[first + i] = f(words[size_t(i)]);
  });
}

// The same. f turns 64 bits into a value.
template <class T, class F>
void fill_from_longs(T* data, int64_t elements, Stream stream, F f) {
  for_words(stream, elements, 2, [&](int64_t first, int64_t count, const Words& words) {
    for (int64_t i = 0; i < count; ++i) data[first + i] = f(uint64_t(words[size_t(2 * i)]) << 32 | words[size_t(2 * i + 1)]);
  });
}

// Standard normal numbers; T is float or double.
inline void fill_normals(float* data, int64_t elements, Stream stream) {
  for_words(stream, elements, 1, [&](int64_t first, int64_t count, const Words& words) {
    const auto values = normals_of(words);
    std::copy_n(values.data(), count, data + first);
  });
}
void fill_normals(double* data, int64_t elements, Stream stream);

// Calls f with a dense tensor of the same shape: the tensor itself, or a copy that is copied back.
template <class F>
void with_dense(at::Tensor& tensor, F f) {
  if (tensor.is_contiguous()) {
    f(tensor);
    return;
  }
  at::Tensor dense = tensor.contiguous();
  f(dense);
  tensor.copy_(dense);
}

}  // namespace softnpu::ops::kernels
