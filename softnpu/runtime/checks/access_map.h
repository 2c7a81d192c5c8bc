// The last accesses to every byte, for the race check.
//
//   AccessMap map;
//   map.visit(range, [&](const Range& part, const Accesses& last) { ... });   // the last accesses to each part of the range
//   map.write(range, access);                                                 // replaces them by one write
//
// For every byte the map keeps the last write and the reads since then. A new read replaces the reads that are done before it
// starts: a task that is ordered after the new read is ordered after them, too. Adjacent ranges with equal accesses are one
// entry, so the size of the map depends on the number of pieces in which a program uses its memory, not on its running time. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ticket.h"

namespace softnpu {

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// An access of a task. The strings are never freed.
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
  std::vector<Access> reads;  // since the write; no read is ordered before another one

  bool operator==(const Accesses&) const = default;
};

class AccessMap {
 public:
  // Calls `visitor` with every known part of `range`, in order.
  void visit(const Range& range, const std::function<void(const Range& part, const Accesses& last)>& visitor) const;

  void write(const Range& range, const Access& access);
  // Adds a read and removes the earlier reads for which `is_over` is true.
  void read(const Range& range, const Access& access, const std::function<bool(const Access&)>& is_over);
  void forget(const Range& range);

  // Removes every entry for whose accesses `is_over` is true.
  void forget_if(const std::function<bool(const Access&)>& is_over);
  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uintptr_t end;
    Accesses last;
  };
  using Entries = std::map<uintptr_t, Entry>;

  // Splits the entry that contains `address` there. Returns the first entry that begins at `address` or later.
  Entries::iterator cut(uintptr_t address);
  // Merges adjacent equal entries, from the one before `range` to the one after it.
  void join(const Range& range);

  Entries entries_;  // by first address; they do not overlap
};

}  // namespace softnpu
