// Two things that do the same job, measured side by side.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Measures one batch and returns the seconds that one repetition of the job took.
using Batch = std::function<double()>;

// What `ratio` is compared with. A case without a bar is shown for information.
struct Bar {
  enum class Kind { kNone, kAtMost, kAtLeast };
  Kind kind = Kind::kNone;
  double value = 0;

  bool met_by(double ratio) const {
    if (kind == Kind::kAtMost) return ratio <= value;
    return kind == Kind::kNone || ratio >= value;
  }
};

struct Case {
  std::string name;
  std::string job;    // one repetition of it, in words
  std::string plain;  // what the other side is
  Bar bar;
  size_t bytes = 0;  // moved by one repetition: results are shown as throughput, and the ratio is that of throughputs
  // Sets both sides up; they live until the case is over.
  std::function<std::pair<Batch, Batch>()> prepare;
};

struct Outcome {
  double ours = 0;  // seconds per repetition, median over all batches
  double plain = 0;
  double ratio = 0;  // of ours to plain, times or throughputs
};

// Every round runs ours, plain, plain, ours, so that what drifts or disturbs hits both sides.
Outcome measure(const Case& one, int rounds);

// Seconds that `body` takes.
template <typename Body>
double seconds(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<Case> queue_cases();
std::vector<Case> event_cases();
std::vector<Case> memory_cases();
std::vector<Case> copy_cases();

}  // namespace bench
