// The cases of a function, one after the other: examples first, then new cases and changes of cases that succeeded.
//
//   Random random = random_of(seed, function, round);
//   next_case(random, function, round, progress, one);
//   run(one, outcome);
//   learn(random, one, outcome, progress);
//
// Only cases of the same function change its progress, so that a case depends on the seed and on the earlier cases of its
// function.
#pragma once

#include <cstdint>

#include "ops/fuzz/case.h"
#include "ops/fuzz/random.h"
#include "ops/fuzz/run.h"

namespace softnpu::fuzz {

inline constexpr int kKept = 5;
inline constexpr int kMaxExamples = 2;

// Lies in shared memory, all zero at first.
struct Progress {
  int64_t rounds;
  int64_t refused;
  int64_t succeeded;
  int64_t late;
  int64_t crashes;
  int64_t hangs;
  int64_t outside;
  int64_t bad_examples;  // examples that did not succeed
  char late_message[1024];
  char refusal[1024];
  bool has_repaired;
  Case repaired;  // the next case: a refused case with the change that its message asks for
  int example_count;
  int kept_count;
  Case kept[kKept];  // examples, then cases that succeeded

  int64_t failures() const { return crashes + hangs + outside; }
};

// Adds an example, unless the function has kMaxExamples.
void add_example(const Case& one, Progress& progress);

// The random numbers of one case.
Random random_of(uint64_t seed, int function, int64_t round);

// Chooses the case of a round.
void next_case(Random& random, int function, int64_t round, Progress& progress, Case& one);

// Counts the outcome of a case, and keeps the case if later ones can start from it.
void learn(Random& random, const Case& one, const Outcome& outcome, Progress& progress);

}  // namespace softnpu::fuzz
