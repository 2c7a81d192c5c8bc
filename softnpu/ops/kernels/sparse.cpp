// Conversion between the row indices of sparse matrices: one index per element (COO) and one offset per row (CSR).
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>

#include "kernels.h"
#include "ops/kernels/bounds.h"

namespace softnpu::ops::kernels {

void coo_to_csr(const at::Tensor& self, int64_t size, bool outInt32, at::Tensor& out) {
  check_bounds(self, size);
  at::_convert_indices_from_coo_to_csr_out(out, self.contiguous(), size, outInt32);
}

void csr_to_coo(const at::Tensor& crowIndices, const at::Tensor& colIndices, bool outInt32, bool transpose, at::Tensor& out) {
  check_offsets(crowIndices, colIndices.size(-1));
  at::_convert_indices_from_csr_to_coo_out(out, crowIndices.contiguous(), colIndices.contiguous(), outInt32, transpose);
}

}  // namespace softnpu::ops::kernels
