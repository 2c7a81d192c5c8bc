// The loops of reduce.h for x86 processors with AVX2 and F16C.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "hccl/reduce.h"

namespace softnpu::hccl::avx2 {

#define SOFTNPU_HCCL_F16C
#include "hccl/reduce_loops.inc"

}  // namespace softnpu::hccl::avx2
#endif
