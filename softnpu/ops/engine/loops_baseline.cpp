#include "ops/engine/loops_includes.h"

#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno", "no-trapping-math")

#define SOFTNPU_LOOPS baseline
#define SOFTNPU_AVX 0
#include "ops/engine/loops.inc"
