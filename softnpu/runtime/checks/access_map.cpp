#include "runtime/checks/access_map.h"

#include <algorithm>
#include <utility>

namespace softnpu {

void AccessMap::visit(const Range& range, const std::function<void(const Range&, const Accesses&)>& visitor) const {
  auto entry = entries_.upper_bound(range.begin);
  if (entry != entries_.begin() && std::prev(entry)->second.end > range.begin) --entry;
  for (; entry != entries_.end() && entry->first < range.end; ++entry) {
    visitor({std::max(entry->first, range.begin), std::min(entry->second.end, range.end)}, entry->second.last);
  }
}

AccessMap::Entries::iterator AccessMap::cut(uintptr_t address) {
  const auto next = entries_.lower_bound(address);
  if (next == entries_.begin()) return next;
  Entry& before = std::prev(next)->second;
  if (before.end <= address) return next;
  const auto tail = entries_.emplace_hint(next, address, before);
  before.end = address;
  return tail;
}

void AccessMap::join(const Range& range) {
  auto entry = entries_.lower_bound(range.begin);
  if (entry != entries_.begin()) --entry;
  while (entry != entries_.end() && entry->first <= range.end) {
    const auto next = std::next(entry);
    if (next == entries_.end()) return;
    if (entry->second.end == next->first && entry->second.last == next->second.last) {
      entry->second.end = next->second.end;
      entries_.erase(next);
    } else {
      entry = next;
    }
  }
}

void AccessMap::forget(const Range& range) {
  cut(range.begin);
  const auto last = cut(range.end);
  entries_.erase(entries_.lower_bound(range.begin), last);
}

void AccessMap::write(const Range& range, const Access& access) {
  forget(range);
  entries_.emplace(range.begin, Entry{range.end, {access, {}}});
  join(range);
}

void AccessMap::read(const Range& range, const Access& access, const std::function<bool(const Access&)>& is_over) {
  cut(range.begin);
  cut(range.end);
  auto entry = entries_.lower_bound(range.begin);
  for (uintptr_t known = range.begin; known < range.end; ++entry) {
    if (entry == entries_.end() || entry->first > known) {
      const uintptr_t end = entry == entries_.end() ? range.end : std::min(entry->first, range.end);
      entry = entries_.emplace_hint(entry, known, Entry{end, {}});
    }
    std::vector<Access>& reads = entry->second.last.reads;
    std::erase_if(reads, is_over);
    reads.push_back(access);
    known = entry->second.end;
  }
  join(range);
}

void AccessMap::forget_if(const std::function<bool(const Access&)>& is_over) {
  std::erase_if(entries_, [&](const auto& item) {
    const Accesses& last = item.second.last;
    return (!last.write || is_over(*last.write)) && std::all_of(last.reads.begin(), last.reads.end(), is_over);
  });
}

}  // namespace softnpu
