// The free pages of a heap as runs: the smallest run that fits is taken, neighbours become one when they come back.
//
// A free page is warm if it was handed out since its memory was last returned to the host: it may still hold some.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace softnpu {

struct PageRun {
  uint32_t first = 0;
  uint32_t pages = 0;
  uint32_t warm = 0;  // how many of them are
};

// Not thread-safe: the heap's lock guards it. Finding a run is logarithmic in the number of free runs.
class PageRuns {
 public:
  // Forgets everything; [first, first + pages) is free and cold.
  void reset(uint32_t first, uint32_t pages);

  // First page of a run that is now the caller's; none if no run is that long.
  std::optional<uint32_t> take(uint32_t pages);

  // Gives a run back, all of it warm or cold, and returns the free run that it is now part of.
  PageRun give(uint32_t first, uint32_t pages, bool warm);

  // Says that no page of `run`, a whole free run, is warm any more.
  void mark_cold(const PageRun& run);

  uint32_t longest() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }
  uint64_t warm() const { return warm_; }

 private:
  struct Extent {
    uint32_t pages = 0;
    uint32_t warm = 0;
  };
  using ByAddress = std::map<uint32_t, Extent>;

  void insert(const PageRun& run);
  PageRun remove(ByAddress::iterator run);

  ByAddress by_address_;
  std::set<std::pair<uint32_t, uint32_t>> by_length_;  // pages, first
  std::vector<bool> is_warm_;                          // of free pages
  uint64_t warm_ = 0;
};

}  // namespace softnpu
