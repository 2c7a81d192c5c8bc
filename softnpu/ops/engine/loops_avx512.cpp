#include "ops/engine/loops_includes.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno", "no-trapping-math")

#define SOFTNPU_LOOPS avx512
#define SOFTNPU_AVX 1
#include "ops/engine/loops.inc"
#endif
