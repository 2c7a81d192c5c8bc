#include "runtime/memory/page_runs.h"

#include <algorithm>
#include <iterator>

namespace softnpu {

void PageRuns::reset(uint32_t first, uint32_t pages) {
  by_address_.clear();
  by_length_.clear();
  is_warm_.assign(size_t{first} + pages, false);
  warm_ = 0;
  if (pages > 0) insert({first, pages, 0});
}

std::optional<uint32_t> PageRuns::take(uint32_t pages) {
  const auto fit = by_length_.lower_bound({pages, 0});
  if (fit == by_length_.end()) return std::nullopt;
  PageRun rest = remove(by_address_.find(fit->second));
  const uint32_t first = rest.first;
  for (uint32_t page = first; rest.warm > 0 && page < first + pages; ++page) rest.warm -= is_warm_[page];
  rest.first += pages;
  rest.pages -= pages;
  if (rest.pages > 0) insert(rest);
  return first;
}

PageRun PageRuns::give(uint32_t first, uint32_t pages, bool warm) {
  std::fill_n(is_warm_.begin() + first, pages, warm);
  PageRun run{first, pages, warm ? pages : 0};
  const auto next = by_address_.lower_bound(first);
  if (next != by_address_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.pages == first) {
      const PageRun before = remove(previous);
      run = {before.first, before.pages + run.pages, before.warm + run.warm};
    }
  }
  if (next != by_address_.end() && next->first == first + pages) {
    const PageRun after = remove(next);
    run.pages += after.pages;
    run.warm += after.warm;
  }
  insert(run);
  return run;
}

void PageRuns::mark_cold(const PageRun& run) {
  std::fill_n(is_warm_.begin() + run.first, run.pages, false);
  by_address_.find(run.first)->second.warm = 0;
  warm_ -= run.warm;
}

void PageRuns::insert(const PageRun& run) {
  by_address_.emplace(run.first, Extent{run.pages, run.warm});
  by_length_.emplace(run.pages, run.first);
  warm_ += run.warm;
}

PageRun PageRuns::remove(ByAddress::iterator run) {
  const PageRun removed{run->first, run->second.pages, run->second.warm};
  by_length_.erase({removed.pages, removed.first});
  by_address_.erase(run);
  warm_ -= removed.warm;
  return removed;
}

}  // namespace softnpu
