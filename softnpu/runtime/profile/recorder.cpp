#include "runtime/profile/recorder.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/futex.h"
#include "runtime/base/log.h"
#include "runtime/profile/signatures.h"

namespace softnpu {
namespace {

constexpr size_t kChunkTasks = 512;
constexpr uint32_t kAnySession = uint32_t{1} << 31;  // set by every session, also by one that records only marks
constexpr uint64_t kMostRecords = uint64_t{4} << 20;

struct Chunk {
  std::array<TaskRecord, kChunkTasks> tasks;
  size_t used = 0;
  std::vector<int64_t> words;  // the tensors of all tasks of the chunk

  bool is_over() const {
    return std::all_of(tasks.begin(), tasks.begin() + ptrdiff_t(used),
                       [](const TaskRecord& task) { return task.end.load(std::memory_order_acquire) != 0; });
  }
};

struct Mark {
  std::string text;
  uint64_t start;
  uint64_t end;
  uint32_t stream;
};

// The records of one thread.
struct Buffer {
  Lock lock;  // guards the members that follow, except those for the thread only
  std::vector<std::unique_ptr<Chunk>> chunks;
  std::vector<SoftnpuCallRecord> calls;
  std::vector<Mark> marks;
  uint32_t thread = uint32_t(syscall(SYS_gettid));
  bool has_ended = false;  // guarded by the mutex of the recorder

  // For the thread only.
  std::vector<uint64_t> external;
  uint64_t epoch = 0;  // Recorder::epoch when `external` and `last_correlation` were written
  uint64_t last_correlation = 0;
  uint64_t next_bytes = 0;
  uint32_t next_direction = 0;
  std::vector<int64_t> next_tensors;
};

struct Position {
  size_t chunk = 0;
  size_t task = 0;
  size_t call = 0;
  size_t mark = 0;
};

struct Session {
  uint32_t what;
  uint64_t begin;
  uint64_t dropped;
  std::map<const Buffer*, Position> visited;
};

struct Recorder {
  std::mutex mutex;  // guards the lists; lock it before the lock of a buffer
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::unique_ptr<Chunk>> pending;  // chunks of ended sessions with tasks that have not ended
  std::map<int64_t, Session> sessions;
  int64_t newest_session = 0;
  bool logs_signatures = false;  // guarded by `mutex`
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> dropped{0};
  std::atomic<uint64_t> newest_correlation{0};
  std::atomic<uint64_t> epoch{0};  // grows when the last session ends

  bool has_room() {
    if (records.fetch_add(1, std::memory_order_relaxed) < kMostRecords) [[likely]]
      return true;
    records.fetch_sub(1, std::memory_order_relaxed);
    dropped.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  void combine_switches() {
    uint32_t all = logs_signatures ? SOFTNPU_LOG_SIGNATURES : 0;
    for (const auto& [number, session] : sessions) all |= session.what | kAnySession;
    detail::records_on.store(all, std::memory_order_seq_cst);
  }
  // Called after the last session. Frees every chunk that no task uses.
  void clear() {
    for (const auto& buffer : buffers) {
      const std::lock_guard guard(buffer->lock);
      for (std::unique_ptr<Chunk>& chunk : buffer->chunks) pending.push_back(std::move(chunk));
      buffer->chunks.clear();
      buffer->calls = {};
      buffer->marks = {};
    }
    std::erase_if(pending, [](const std::unique_ptr<Chunk>& chunk) { return chunk->is_over(); });
    std::erase_if(buffers, [](const std::unique_ptr<Buffer>& buffer) { return buffer->has_ended; });
    epoch.fetch_add(1, std::memory_order_relaxed);
    records.store(0, std::memory_order_relaxed);
    dropped.store(0, std::memory_order_relaxed);
  }
};

Recorder& recorder() {
  static auto* const one = new Recorder;
  return *one;
}

// The buffer of the calling thread. After the end of the thread, the end of the last session frees it.
Buffer& buffer() {
  struct Owner {
    Buffer* buffer = nullptr;
    ~Owner() {
      if (buffer == nullptr) return;
      const std::lock_guard guard(recorder().mutex);
      buffer->has_ended = true;
    }
  };
  thread_local Owner owner;
  if (owner.buffer == nullptr) [[unlikely]] {
    auto made = std::make_unique<Buffer>();
    owner.buffer = made.get();
    const std::lock_guard guard(recorder().mutex);
    recorder().buffers.push_back(std::move(made));
  }
  // The numbers in `external` are stale if they come from an operator that ran when the last session ended.
  if (const uint64_t now = recorder().epoch.load(std::memory_order_relaxed); owner.buffer->epoch != now) [[unlikely]] {
    owner.buffer->epoch = now;
    owner.buffer->external.clear();
    owner.buffer->last_correlation = 0;
  }
  return *owner.buffer;
}

void visit_tasks(const Buffer& buffer, const Session& session, Position& at, const SoftnpuRecordVisitor& visitor,
                 uint64_t* unfinished) {
  for (; at.chunk < buffer.chunks.size(); ++at.chunk, at.task = 0) {
    const Chunk& chunk = *buffer.chunks[at.chunk];
    for (; at.task < chunk.used; ++at.task) {
      const TaskRecord& task = chunk.tasks[at.task];
      const uint64_t end = task.end.load(std::memory_order_acquire);
      if (end == 0 && unfinished == nullptr) return;  // the next read continues with this task
      if (task.enqueue < session.begin) continue;
      if (end == 0) {
        ++*unfinished;
        continue;
      }
      if (visitor.task == nullptr) continue;
      const SoftnpuTaskRecord record{.name = task.name,
                                     .enqueue_ns = task.enqueue,
                                     .start_ns = task.start,
                                     .end_ns = end,
                                     .task = task.ticket,
                                     .correlation = task.correlation,
                                     .external = task.external,
                                     .bytes = task.bytes,
                                     .device = task.device,
                                     .stream = task.stream,
                                     .thread = buffer.thread,
                                     .direction = task.direction,
                                     .skipped = task.skipped,
                                     .words = task.words,
                                     .tensors = chunk.words.data() + task.first_word};
      visitor.task(visitor.context, &record);
    }
    if (chunk.used < kChunkTasks) return;  // the thread may add tasks to this chunk
  }
}

void visit(Buffer& buffer, Session& session, const SoftnpuRecordVisitor& visitor, uint64_t* unfinished) {
  const std::lock_guard guard(buffer.lock);
  Position& at = session.visited[&buffer];
  visit_tasks(buffer, session, at, visitor, unfinished);
  for (; at.call < buffer.calls.size(); ++at.call) {
    const SoftnpuCallRecord& call = buffer.calls[at.call];
    if (call.start_ns >= session.begin && visitor.call != nullptr) visitor.call(visitor.context, &call);
  }
  for (; at.mark < buffer.marks.size(); ++at.mark) {
    const Mark& mark = buffer.marks[at.mark];
    if (mark.end < session.begin || visitor.mark == nullptr) continue;
    const SoftnpuMarkRecord record{mark.text.c_str(), mark.start, mark.end, buffer.thread, mark.stream};
    visitor.mark(visitor.context, &record);
  }
}

// Frees the records of a buffer that every session has visited.
void forget_visited(Recorder& all, Buffer& buffer) {
  const std::lock_guard guard(buffer.lock);
  Position least{.chunk = SIZE_MAX, .task = 0, .call = SIZE_MAX, .mark = SIZE_MAX};
  for (const auto& [number, session] : all.sessions) {
    const auto found = session.visited.find(&buffer);
    const Position at = found == session.visited.end() ? Position{} : found->second;
    least.chunk = std::min(least.chunk, at.chunk);
    least.call = std::min(least.call, at.call);
    least.mark = std::min(least.mark, at.mark);
  }
  buffer.chunks.erase(buffer.chunks.begin(), buffer.chunks.begin() + ptrdiff_t(least.chunk));
  buffer.calls.erase(buffer.calls.begin(), buffer.calls.begin() + ptrdiff_t(least.call));
  buffer.marks.erase(buffer.marks.begin(), buffer.marks.begin() + ptrdiff_t(least.mark));
  for (auto& [number, session] : all.sessions) {
    const auto found = session.visited.find(&buffer);
    if (found == session.visited.end()) continue;
    found->second.chunk -= least.chunk;
    found->second.call -= least.call;
    found->second.mark -= least.mark;
  }
  all.records.fetch_sub(least.chunk * kChunkTasks + least.call + least.mark, std::memory_order_relaxed);
}

int64_t start(uint32_t what) {
  Recorder& all = recorder();
  const std::lock_guard guard(all.mutex);
  if (all.sessions.empty()) all.clear();
  const int64_t number = ++all.newest_session;
  all.sessions[number] = {what, record_clock(), all.dropped.load(std::memory_order_relaxed), {}};
  all.combine_switches();
  return number;
}

bool read(int64_t number, const SoftnpuRecordVisitor* visitor) {
  Recorder& all = recorder();
  const std::lock_guard guard(all.mutex);
  const auto found = all.sessions.find(number);
  if (found == all.sessions.end()) return false;
  for (const auto& buffer : all.buffers) {
    visit(*buffer, found->second, *visitor, nullptr);
    forget_visited(all, *buffer);
  }
  return true;
}

bool stop(int64_t number, const SoftnpuRecordVisitor* visitor, SoftnpuRecordTotals* totals) {
  constexpr SoftnpuRecordVisitor kNone{};
  Recorder& all = recorder();
  const std::lock_guard guard(all.mutex);
  const auto found = all.sessions.find(number);
  if (found == all.sessions.end()) return false;
  uint64_t unfinished = 0;
  for (const auto& buffer : all.buffers) visit(*buffer, found->second, visitor != nullptr ? *visitor : kNone, &unfinished);
  if (totals != nullptr) *totals = {all.dropped.load(std::memory_order_relaxed) - found->second.dropped, unfinished};
  all.sessions.erase(found);
  all.combine_switches();
  if (all.sessions.empty()) all.clear();
  return true;
}

void mark(const char* text, size_t length, uint64_t start_ns, uint64_t end_ns, uint32_t stream) {
  if (!records_anything() || !recorder().has_room()) return;
  Buffer& mine = buffer();
  const std::lock_guard guard(mine.lock);
  mine.marks.push_back({std::string(text, length), start_ns, end_ns, stream});
}

void push_external(uint64_t number) {
  if (records_anything()) buffer().external.push_back(number);
}

void pop_external() {
  if (!records_anything()) return;
  std::vector<uint64_t>& numbers = buffer().external;
  if (!numbers.empty()) numbers.pop_back();
}

}  // namespace

uint64_t record_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

void describe_next_task(uint64_t bytes, uint32_t direction, const int64_t* tensors, uint32_t words) {
  Buffer& mine = buffer();
  mine.next_bytes = bytes;
  mine.next_direction = direction;
  mine.next_tensors.assign(tensors, tensors + words);
}

void forget_description() { describe_next_task(0, 0, nullptr, 0); }

TaskRecord* begin_task(const char* name, int32_t device, uint32_t stream, uint64_t ticket) {
  if (!recorder().has_room()) [[unlikely]]
    return nullptr;
  Buffer& mine = buffer();
  const std::lock_guard guard(mine.lock);
  if (mine.chunks.empty() || mine.chunks.back()->used == kChunkTasks) mine.chunks.push_back(std::make_unique<Chunk>());
  Chunk& chunk = *mine.chunks.back();
  TaskRecord& task = chunk.tasks[chunk.used];
  task.name = name;
  task.ticket = ticket;
  task.device = device;
  task.stream = stream;
  task.correlation = mine.last_correlation = recorder().newest_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
  task.external = mine.external.empty() ? 0 : mine.external.back();
  task.bytes = std::exchange(mine.next_bytes, 0);
  task.direction = std::exchange(mine.next_direction, 0);
  task.first_word = uint32_t(chunk.words.size());
  task.words = uint32_t(mine.next_tensors.size());
  chunk.words.insert(chunk.words.end(), mine.next_tensors.begin(), mine.next_tensors.end());
  mine.next_tensors.clear();
  task.enqueue = record_clock();
  ++chunk.used;
  return &task;
}

void end_task(TaskRecord& record) {
  const uint64_t now = record_clock();
  if (record.start == 0) {
    record.start = now;
    record.skipped = true;
  }
  record.end.store(now, std::memory_order_release);
}

// Sets SOFTNPU_LOG_SIGNATURES by the level of the log. The level does not change.
void choose_signatures() {
  static const bool chosen = [] {
    if (!log_enabled(LogLevel::kInfo)) return true;
    const std::lock_guard guard(recorder().mutex);
    recorder().logs_signatures = true;
    recorder().combine_switches();
    return true;
  }();
  (void)chosen;
}

void detail::note_call(const char* name, uint64_t start) {
  if (!recorder().has_room()) return;
  Buffer& mine = buffer();
  const uint64_t end = record_clock();
  const std::lock_guard guard(mine.lock);
  mine.calls.push_back({name, start, end, std::exchange(mine.last_correlation, 0), mine.thread});
}

}  // namespace softnpu

const SoftnpuProfiler* softnpuProfiler(uint32_t version) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  static const SoftnpuProfiler profiler{.version = SOFTNPU_PROFILER_VERSION,
                                        .on = reinterpret_cast<const uint32_t*>(&softnpu::detail::records_on),
                                        .start = softnpu::start,
                                        .read = softnpu::read,
                                        .stop = softnpu::stop,
                                        .now = softnpu::record_clock,
                                        .describe_next = softnpu::describe_next_task,
                                        .signature = softnpu::log_signature,
                                        .call = softnpu::detail::note_call,
                                        .mark = softnpu::mark,
                                        .push_external = softnpu::push_external,
                                        .pop_external = softnpu::pop_external};
  softnpu::choose_signatures();
  return version == SOFTNPU_PROFILER_VERSION ? &profiler : nullptr;
}
