// Who touched which bytes last: the memory of the race check.
//
//   AccessMap map;
//   map.visit(range, [&](const Range& part, const Accesses& last) { ... });   // what is known about any part of it
//   map.write(range, access);                                                 // now that is all that is known about it
//
// For every byte it keeps the last write and the reads since. A read replaces those that are over before it starts: whatever is
// ordered behind the new one is ordered behind them. Neighbours that know the same are one entry, so the map grows with the
// number of pieces in which a program uses its memory and not with the time it runs. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/stream/task_queue.h"

namespace softnpu {

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// A task's use of memory. Names and origins live for ever.
struct Access {
  uint32_t stream = 0;
  bool atomic = false;
  Ticket ticket = 0;
  const char* task = nullptr;
  const std::string* origin = nullptr;  // where the client launched it; null if unknown

  bool operator==(const Access&) const = default;
};

struct Accesses {
  std::optional<Access> write;
  std::vector<Access> reads;  // since the write, none ordered before another

  bool operator==(const Accesses&) const = default;
};

class AccessMap {
 public:
  // Calls `visitor` with every known part of `range`, in order.
  void visit(const Range& range, const std::function<void(const Range& part, const Accesses& last)>& visitor) const;

  void write(const Range& range, const Access& access);
  // Forgets the reads for which `is_over` holds.
  void read(const Range& range, const Access& access, const std::function<bool(const Access&)>& is_over);
  void forget(const Range& range);

  // Forgets every part whose accesses are all over.
  void forget_if(const std::function<bool(const Access&)>& is_over);
  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uintptr_t end;
    Accesses last;
  };
  using Entries = std::map<uintptr_t, Entry>;

  // Makes `address` a border; the first entry that begins there or later.
  Entries::iterator cut(uintptr_t address);
  // Joins neighbours that know the same, from the one before `range` to the one behind it.
  void join(const Range& range);

  Entries entries_;  // by first address; they do not overlap
};

}  // namespace softnpu
