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
  ours();  // warm
  plain();
  std::vector<double> all_ours;
  std::vector<double> all_plain;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const double first = ours();
    const double second = plain();
    const double third = plain();
    const double fourth = ours();
    all_ours.insert(all_ours.end(), {first, fourth});
    all_plain.insert(all_plain.end(), {second, third});
    const double ratio = (first + fourth) / (second + third);
    ratios.push_back(one.bytes > 0 ? 1 / ratio : ratio);
  }
  return {median(all_ours), median(all_plain), median(ratios)};
}

}  // namespace bench
