#include "measure.h"

#include <algorithm>

namespace bench {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

Outcome measure(const Case& one, int rounds) {
  const auto [ours, plain] = one.prepare();
  // The first batch after the other side's finds caches and sleeping threads of that side: it is not counted.
  const auto measured = [](const Batch& batch) {
    batch();
    return batch();
  };
  std::vector<double> all_ours;
  std::vector<double> all_plain;
  for (int round = 0; round < rounds; ++round) {
    all_ours.push_back(measured(ours));
    all_plain.push_back(measured(plain));
    all_plain.push_back(measured(plain));
    all_ours.push_back(measured(ours));
  }
  Outcome outcome{median(all_ours), median(all_plain), 0};
  outcome.ratio = one.bytes > 0 ? outcome.plain / outcome.ours : outcome.ours / outcome.plain;
  return outcome;
}

}  // namespace bench
