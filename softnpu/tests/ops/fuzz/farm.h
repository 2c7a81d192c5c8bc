// Workers that run cases, and a parent that survives them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {

struct Options {
  int64_t calls = 20'000;
  uint64_t seed = 1;
  std::vector<int> functions;  // numbers of the table
  int jobs = 1;
  double patience = 10;     // seconds without progress that are a hang
  int failures = 3;         // a function that failed so often is not called again
  int attempts = 60;        // to make the first failure of a function simpler
  bool shows_late = false;  // prints functions that failed after phase one
  bool shows_never = false;
};

// Runs all cases, prints failures and counts. True if nothing crashed, hung or touched memory outside.
bool run_all(const Options& options);

// Runs the cases of one function up to number `round` and prints that one and its outcome.
bool run_one(const Options& options, int function, int64_t round);

// Runs one call and prints it and its outcome.
bool run_call(const Options& options, const Case& one);

}  // namespace softnpu::fuzz
