#include "ops/engine/loops.h"

#include <ATen/Version.h>

#include <string>

namespace softnpu::ops::engine {

namespace avx512 {
extern const Loops kLoops;
}
namespace avx2 {
extern const Loops kLoops;
}
namespace baseline {
extern const Loops kLoops;
}

namespace {

// The same choice as ATen, which an environment variable can change: the instruction set decides where ATen fuses.
const Loops& best_loops() {
#if defined(__x86_64__)
  const std::string capability = at::get_cpu_capability();
  if (capability == "AVX512") return avx512::kLoops;
  if (capability == "AVX2") return avx2::kLoops;
#endif
  return baseline::kLoops;
}

}  // namespace

const Loops& loops() {
  static const Loops& best = best_loops();
  return best;
}

}  // namespace softnpu::ops::engine
