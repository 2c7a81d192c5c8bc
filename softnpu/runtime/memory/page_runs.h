// The free pages of a heap, as runs of adjacent pages. take() uses best fit; give() merges adjacent runs.
//
//   runs.reset(0, 100);
//   const std::optional<uint32_t> first = runs.take(3);
//   runs.give(*first, 3, /*warm=*/true);
//
// A free page is warm if it was used since its memory was last returned to the host: the host may still supply memory for it.
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
  uint32_t warm = 0;  // number of warm pages
};

// Not thread-safe; the heap's mutex guards it. Finding a run is logarithmic in the number of free runs.
class PageRuns {
 public:
  // Afterwards exactly [first, first + pages) is free, and cold.
  void reset(uint32_t first, uint32_t pages);

  // Removes a run of `pages` pages and returns its first page; none if no run is that long.
  std::optional<uint32_t> take(uint32_t pages);

  // Adds a run whose pages are all warm or all cold. Returns the merged run that contains it.
  PageRun give(uint32_t first, uint32_t pages, bool warm);

  // Marks all pages of `run`, a whole free run, as cold.
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
  std::set<std::pair<uint32_t, uint32_t>> by_length_;  // number of pages, first page
  std::vector<bool> is_warm_;                          // valid for free pages
  uint64_t warm_ = 0;
};

}  // namespace softnpu
