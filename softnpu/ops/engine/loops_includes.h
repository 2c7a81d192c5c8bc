// The includes of the loops. Must come before a file sets its target, so that the inline functions of these headers run on all
// processors.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/engine/loops.h"
#include "runtime/base/float16.h"
