#include "runtime/checks/races.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/origin.h"
#include "runtime/engine/arena.h"
#include "runtime/memory/heaps.h"
#include "runtime/memory/host_memory.h"

namespace softnpu {
namespace {

constexpr size_t kOftenEnough = 4096;             // a map with fewer entries is not swept
constexpr size_t kMostEntries = size_t{1} << 18;  // a larger map is cleared: races may be missed then
constexpr size_t kMostReports = 100;              // kept for the command `races`; stderr and the log get all reports

// The client's address of the kernel address `address`; 0 for memory that is not checked.
uintptr_t client_address(const void* address) {
  const Arena::Range arena = Arena::device_range();
  const auto number = reinterpret_cast<uintptr_t>(address);
  const uintptr_t begin = arena.begin + uintptr_t(arena.kernel_offset);
  if (number - begin < arena.end - arena.begin) return number - uintptr_t(arena.kernel_offset);
  if (number - arena.begin < arena.end - arena.begin) return number;
  return host_memory().find(address).kind == HostMemoryKind::kPageable ? 0 : number;
}

std::string describe_allocation(uintptr_t address) {
  const auto* pointer = reinterpret_cast<const void*>(address);
  if (!Arena::contains(pointer)) {
    const HostRange range = host_memory().find(pointer);
    return range.base == nullptr ? "host memory"
                                 : text("host memory ", static_cast<void*>(range.base), " of ", range.bytes, " bytes");
  }
  const Heaps::Owner owner = Heaps::find(pointer);
  const std::optional<Allocation> block = owner.heap == nullptr ? std::nullopt : owner.heap->find(pointer);
  if (!block) return text("freed memory of device ", owner.number);
  return text("allocation ", static_cast<void*>(block->base), " of ", block->bytes, " bytes on device ", owner.number);
}

std::string describe_task(const Access& access) {
  return text(access.task, " on stream ", access.stream, " (task ", access.ticket, access.origin == nullptr ? "" : ", ",
              access.origin == nullptr ? std::string() : *access.origin, ")");
}

}  // namespace

bool RaceClock::learn(uint32_t stream, Ticket ticket) {
  if (over.size() <= stream) over.resize(stream + 1);
  if (over[stream] >= ticket) return false;
  over[stream] = ticket;
  return true;
}

bool RaceClock::learn(const RaceClock& other) {
  bool is_new = false;
  for (uint32_t stream = 0; stream < other.over.size(); ++stream) is_new |= learn(stream, other.over[stream]);
  return is_new;
}

const std::string* Races::origin() {
  std::string line = client_origin(SOFTNPU_ORIGIN_RACES);
  if (line.empty()) return nullptr;
  std::lock_guard guard(mutex_);
  return &*origins_.insert(std::move(line)).first;
}

Races::StreamState& Races::stream_at(uint32_t number) {
  if (streams_.size() <= number) streams_.resize(number + 1);
  return streams_[number];
}

bool Races::is_unclear(uint32_t number) {
  const Ticket from = stream_at(number).unclear_from;
  return from != 0 && (host_.over.size() <= number || host_.over[number] < from);
}

Status Races::admit(uint32_t number, Ticket ticket, const SoftnpuTaskKind& kind, const void* payload, const std::string* origin) {
  std::lock_guard guard(mutex_);
  StreamState& stream = stream_at(number);
  if (std::exchange(stream.host_version, host_version_) != host_version_) stream.clock.learn(host_);
  if (kind.flags & SOFTNPU_TASK_OUTSIDE) stream.unclear_from = ticket;
  if (kind.visit != nullptr && !is_unclear(number)) {
    touches_.clear();
    kind.visit(
        payload,
        [](void* races, const void* address, size_t bytes, uint32_t flags) {
          static_cast<Races*>(races)->collect(address, bytes, flags);
        },
        this);
    const Access access{.stream = number, .atomic = false, .ticket = ticket, .task = kind.name, .origin = origin};
    SOFTNPU_RETURN_IF_ERROR(check_touches({.access = access, .is_host = false, .frees = false, .clock = &stream.clock}));
    // Reads first, writes last: a range that the task reads and writes is kept as written, since a write conflicts with every
    // access.
    std::stable_partition(touches_.begin(), touches_.end(), [](const Touch& touch) { return !touch.writes; });
    const auto is_over = [&](const Access& before) { return before.stream == number || stream.clock.knows(before); };
    for (const Touch& touch : touches_) {
      Access mine = access;
      mine.atomic = touch.atomic;
      if (touch.writes) {
        map_.write(touch.range, mine);
      } else {
        map_.read(touch.range, mine, is_over);
      }
    }
    keep_small();
  }
  stream.newest = ticket;
  return {};
}

RaceClock Races::clock_at(uint32_t number, Ticket ticket) {
  std::lock_guard guard(mutex_);
  RaceClock clock = stream_at(number).clock;
  clock.learn(host_);
  clock.learn(number, ticket);
  clock.is_unclear = is_unclear(number);
  return clock;
}

void Races::stream_learns(uint32_t number, const RaceClock& clock) {
  std::lock_guard guard(mutex_);
  StreamState& stream = stream_at(number);
  stream.clock.learn(clock);
  if (clock.is_unclear) stream.unclear_from = stream.newest + 1;
}

void Races::host_learns(const RaceClock& clock) {
  std::lock_guard guard(mutex_);
  bool is_new = host_.learn(clock);
  if (clock.is_unclear) {  // the clock is incomplete: assume that all submitted tasks are done
    for (uint32_t number = 0; number < streams_.size(); ++number) is_new |= host_.learn(number, streams_[number].newest);
  }
  host_version_ += is_new;
}

void Races::collect(const void* address, size_t bytes, uint32_t flags) {
  if (bytes == 0) return;
  const uintptr_t begin = client_address(address);
  if (begin == 0) return;
  touches_.push_back({{begin, begin + bytes}, (flags & SOFTNPU_ACCESS_WRITES) != 0, (flags & SOFTNPU_ACCESS_ATOMIC) != 0});
}

Status Races::check_touches(const Toucher& now) {
  Status failure;
  for (const Touch& touch : touches_) {
    map_.visit(touch.range, [&](const Range& part, const Accesses& last) {
      const auto check = [&](const Access& before, bool wrote) {
        const bool is_ordered = (!now.is_host && before.stream == now.access.stream) || now.clock->knows(before);
        if (is_ordered || (before.atomic && touch.atomic)) return;
        const bool fails = failure.ok() && options().race_check == RaceCheck::kFail;
        const bool is_new = is_news(now, before);
        if (!is_new && !fails) return;
        const std::string line = describe(now, touch.writes, before, wrote, part);
        if (is_new) report(line);
        if (fails) failure = Status(ACL_ERROR_RT_STREAM_UNJOINED, line);
      };
      if (last.write) check(*last.write, true);
      if (!touch.writes) return;
      for (const Access& read : last.reads) check(read, false);
    });
  }
  return failure;
}

Status Races::check_host(const char* function, const std::function<void(SoftnpuAccessVisitor, void*)>& visit) {
  const std::string* where = origin();
  std::lock_guard guard(mutex_);
  touches_.clear();
  visit([](void* races, const void* address, size_t bytes,
           uint32_t flags) { static_cast<Races*>(races)->collect(address, bytes, flags); },
        this);
  const Access access{.stream = 0, .atomic = false, .ticket = 0, .task = function, .origin = where};
  return check_touches({.access = access, .is_host = true, .frees = false, .clock = &host_});
}

void Races::forget(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  std::lock_guard guard(mutex_);
  map_.forget({begin, begin + bytes});
}

// Does not call origin(): an allocator may hold locks that the function of the client needs.
Status Races::check_free(const char* function, const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  std::lock_guard guard(mutex_);
  touches_.assign(1, {{begin, begin + bytes}, /*writes=*/true, /*atomic=*/false});
  const Access access{.stream = 0, .atomic = false, .ticket = 0, .task = function, .origin = nullptr};
  Status status = check_touches({.access = access, .is_host = true, .frees = true, .clock = &host_});
  map_.forget({begin, begin + bytes});
  return status;
}

std::string Races::describe(const Toucher& now, bool writes, const Access& before, bool wrote, const Range& part) const {
  std::string who;
  if (!now.is_host) {
    who = describe_task(now.access);
  } else {
    who = text(now.access.task, " on the host", now.access.origin == nullptr ? "" : " (",
               now.access.origin == nullptr ? std::string() : *now.access.origin + ")");
  }
  const char* what = now.frees ? " frees " : writes ? " writes " : " reads ";
  return text("race: ", who, what, part.end - part.begin, " bytes at ", reinterpret_cast<const void*>(part.begin), " that ",
              describe_task(before), wrote ? " writes" : " reads", ", and nothing orders the two; ",
              describe_allocation(part.begin));
}

bool Races::is_news(const Toucher& now, const Access& before) {
  std::string first = text(now.access.task, " ", now.is_host ? "host" : std::to_string(now.access.stream));
  std::string second = text(before.task, " ", before.stream);
  if (second < first) std::swap(first, second);
  return reported_.emplace(std::move(first), std::move(second)).second;
}

void Races::report(const std::string& line) {
  const std::string printed = text("[WARNING] softnpu: ", line, "\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, printed.data(), printed.size());
  SOFTNPU_LOG(kError, line);
  if (reports_.size() < kMostReports) reports_.push_back(line);
}

// Accesses that are done in the host's clock cannot be part of a race any more.
void Races::keep_small() {
  if (map_.size() < std::max(sweep_at_, kOftenEnough)) return;
  map_.forget_if([&](const Access& access) { return host_.knows(access); });
  if (map_.size() > kMostEntries) map_.clear();
  sweep_at_ = 2 * map_.size();
}

std::string Races::take_reports() {
  std::lock_guard guard(mutex_);
  std::string lines;
  for (const std::string& line : reports_) lines += line + "\n";
  reports_.clear();
  reported_.clear();
  return lines;
}

Races& races() {
  static auto* instance = new Races;
  return *instance;
}

}  // namespace softnpu
