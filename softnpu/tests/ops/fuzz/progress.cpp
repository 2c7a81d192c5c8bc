#include "ops/fuzz/progress.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "ops/fuzz/generate.h"
#include "ops/fuzz/repair.h"

namespace softnpu::fuzz {
namespace {

bool has_elements(const Case& one) {
  return std::any_of(one.tensors, one.tensors + one.tensor_count,
                     [](const Tensor& tensor) { return !tensor.is_null && count_elements(tensor) > 1; });
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash = 1469598103934665603u;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 1099511628211u;
  return hash;
}

}  // namespace

void add_example(const Case& one, Progress& progress) {
  if (progress.example_count == kMaxExamples) return;
  progress.kept[progress.kept_count++] = one;
  ++progress.example_count;
}

Random random_of(uint64_t seed, int function, int64_t round) {
  return Random(seed, hash_of(functions()[static_cast<size_t>(function)].name) + static_cast<uint64_t>(round));
}

// Half of the cases after the examples change one thing of a case that succeeded.
void next_case(Random& random, int function, int64_t round, Progress& progress, Case& one) {
  if (round < progress.example_count) {
    one = progress.kept[round];
  } else if (progress.has_repaired) {
    one = progress.repaired;
    progress.has_repaired = false;
  } else if (progress.kept_count > 0 && random.chance(0.5)) {
    one = progress.kept[random.below(progress.kept_count)];
    do mutate(random, one);
    while (random.chance(0.2));
  } else {
    generate(random, function, one);
  }
}

void learn(Random& random, const Case& one, const Outcome& outcome, Progress& progress) {
  switch (outcome.result) {
    case Result::kRefused:
      ++progress.refused;
      memcpy(progress.refusal, outcome.message, sizeof outcome.message);
      break;
    case Result::kSucceeded:
      ++progress.succeeded;
      break;
    case Result::kLate:
      ++progress.late;
      memcpy(progress.late_message, outcome.message, sizeof outcome.message);
      break;
    case Result::kOutside:
      return;  // the parent process counts it
  }
  const bool succeeded = outcome.result == Result::kSucceeded;
  if (!succeeded) {
    progress.repaired = one;
    progress.has_repaired = random.chance(0.9) && repair(random, progress.repaired, outcome.message);
  }
  if (!succeeded || (progress.kept_count > 0 && !has_elements(one))) return;
  const int64_t place = progress.kept_count < kKept ? progress.kept_count++ : random.between(progress.example_count, kKept - 1);
  progress.kept[place] = one;
}

}  // namespace softnpu::fuzz
