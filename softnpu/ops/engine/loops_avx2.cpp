#include "ops/engine/loops_includes.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno", "no-trapping-math")

#define SOFTNPU_LOOPS avx2
#define SOFTNPU_AVX 1
#include "ops/engine/loops.inc"
#endif
