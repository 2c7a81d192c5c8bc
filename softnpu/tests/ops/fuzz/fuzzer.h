// The fuzzer: worker processes that run cases, and a parent process that counts their results and prints failures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {

struct Options {
  int64_t calls = 20'000;
  uint64_t seed = 1;
  std::vector<int> functions;  // indices in the table
  int jobs = 1;
  double patience = 10;     // a case that takes more seconds hangs
  int failures = 3;         // after so many failures a function is not called again
  int attempts = 60;        // to simplify the first failure of a function
  bool shows_late = false;  // prints functions that failed after phase one
  bool shows_never = false;
};

// Runs all cases and prints failures and counts. True if no call crashed, hung or accessed memory outside of its tensors.
bool run_all(const Options& options);

// Runs the cases of one function up to number `round`, and prints the last one and its outcome.
bool run_one(const Options& options, int function, int64_t round);

// Runs one call and prints it and its outcome.
bool run_call(const Options& options, const Case& one);

}  // namespace softnpu::fuzz
