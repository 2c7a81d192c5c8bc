// Marks, ranges and steps. While there is no recording, these functions only check their arguments.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "prof/entry.h"
#include "prof/library.h"
#include "prof/recordings.h"
#include "prof_api.h"

// The object behind the opaque type of a step. The tasks that write the times of a step share it.
struct aclprofStepInfo {
  bool has_begun = false;              // ACL_STEP_START was called, and ACL_STEP_END was not
  std::atomic<uint64_t> start_ns = 0;  // the time when the stream reached the begin; 0: not recorded
};

namespace softnpu::prof {
namespace {

constexpr size_t kMostTextBytes = 65536;

struct Range {
  std::string text;
  uint64_t start_ns;
};

using Step = std::shared_ptr<aclprofStepInfo>;

struct Objects {
  static Objects& get() {
    static auto* const one = new Objects;
    return *one;
  }

  std::mutex mutex;  // guards the members below
  std::map<const void*, std::unique_ptr<std::string>> stamps;
  std::map<const aclprofStepInfo*, Step> steps;
  std::map<uint32_t, Range> ranges;
  uint32_t newest_range = 0;

  // The text of a stamp.
  Result<std::string> text_of(const void* stamp) {
    const auto found = stamps.find(stamp);
    if (found != stamps.end()) return *found->second;
    return Status(ACL_ERROR_INVALID_PARAM, "argument 'stamp' was not made by aclprofCreateStamp, or was destroyed");
  }
};

// The ranges of aclprofPush that are open on this thread.
std::vector<Range>& open_ranges() {
  thread_local std::unique_ptr<std::vector<Range>> ranges;  // a pointer, because static thread-local memory is scarce
  if (ranges == nullptr) ranges = std::make_unique<std::vector<Range>>();
  return *ranges;
}

bool is_recorded() { return (__atomic_load_n(profiler()->on, __ATOMIC_RELAXED) & ~SOFTNPU_LOG_SIGNATURES) != 0; }

void mark(const std::string& text, uint64_t start_ns, uint64_t end_ns, uint32_t stream = SOFTNPU_NO_STREAM) {
  profiler()->mark(text.data(), text.size(), start_ns, end_ns, stream);
}

Status check_text(size_t length) {
  if (length > 0 && length <= kMostTextBytes) return {};
  return {ACL_ERROR_INVALID_PARAM, text("the message has ", length, " bytes; it must have 1 to ", kMostTextBytes)};
}

// A task that runs run() when the stream reaches it. If it is captured, each replay of the graph runs it again.
class Action {
 public:
  virtual ~Action() = default;
  virtual void run() = 0;
};

Status launch(const char* name, const SoftnpuTaskKind& kind, std::unique_ptr<Action> action, aclrtStream stream) {
  Action* const payload = action.get();
  const aclError code = driver()->launch(stream, &kind, &payload, sizeof payload, /*cost=*/1);
  if (code != ACL_SUCCESS) return {code, text("the stream did not accept the task of ", name, ": ", aclGetRecentErrMsg())};
  (void)action.release();  // release_action() deletes it
  return {};
}

aclError run_action(void* payload, char*) {
  (*static_cast<Action**>(payload))->run();
  return ACL_SUCCESS;
}
void release_action(void* payload) { delete *static_cast<Action**>(payload); }

constexpr SoftnpuTaskKind kMarkKind = {
    .name = "aclprofMarkEx", .run = run_action, .release = release_action, .ready = nullptr, .flags = 0, .visit = nullptr};
constexpr SoftnpuTaskKind kStepKind = {.name = "aclprofGetStepTimestamp",
                                       .run = run_action,
                                       .release = release_action,
                                       .ready = nullptr,
                                       .flags = 0,
                                       .visit = nullptr};

class MarkAction final : public Action {
 public:
  MarkAction(std::string text, uint32_t stream) : text_(std::move(text)), stream_(stream) {}
  void run() override {
    const uint64_t now = profiler()->now();
    mark(text_, now, now, stream_);
  }

 private:
  const std::string text_;
  const uint32_t stream_;
};

class StepAction final : public Action {
 public:
  StepAction(Step step, aclprofStepTag tag) : step_(std::move(step)), tag_(tag) {}
  void run() override {
    const uint64_t now = profiler()->now();
    if (tag_ == ACL_STEP_START) {
      step_->start_ns = now;
    } else if (const uint64_t start = step_->start_ns.exchange(0); start != 0) {
      Recordings::get().add_step(start, now);
    }
  }

 private:
  const Step step_;
  const aclprofStepTag tag_;
};

}  // namespace

namespace api {

Status aclprofMarkEx(const char* msg, size_t msgLen, aclrtStream stream) {
  SOFTNPU_RETURN_IF_ERROR(check_text(msgLen));
  if (!is_recorded()) return {};
  int32_t number = 0;
  if (const aclError code = aclrtStreamGetId(stream, &number); code != ACL_SUCCESS) {
    return {code, text("argument 'stream' is wrong: ", aclGetRecentErrMsg())};
  }
  return launch("aclprofMarkEx", kMarkKind, std::make_unique<MarkAction>(std::string(msg, msgLen), uint32_t(number)), stream);
}

Status aclprofSetStampTraceMessage(void* stamp, const char* msg, uint32_t msgLen) {
  SOFTNPU_RETURN_IF_ERROR(check_text(msgLen));
  Objects& objects = Objects::get();
  const std::lock_guard guard(objects.mutex);
  if (Result<std::string> known = objects.text_of(stamp); !known.ok()) return known.take_status();
  objects.stamps[stamp]->assign(msg, msgLen);
  return {};
}

namespace {

// A range with the text of the stamp that begins now.
Result<Range> begin(void* stamp) {
  Objects& objects = Objects::get();
  const std::lock_guard guard(objects.mutex);
  Result<std::string> message = objects.text_of(stamp);
  if (!message.ok()) return message.take_status();
  if (message.value().empty()) {
    return Status(ACL_ERROR_INVALID_PARAM, "the stamp has no message; call aclprofSetStampTraceMessage first");
  }
  return Range{std::move(message.value()), profiler()->now()};
}

}  // namespace

Status aclprofMark(void* stamp) {
  Result<Range> range = begin(stamp);
  if (!range.ok()) return range.take_status();
  mark(range.value().text, range.value().start_ns, range.value().start_ns);
  return {};
}

Status aclprofPush(void* stamp) {
  Result<Range> range = begin(stamp);
  if (!range.ok()) return range.take_status();
  open_ranges().push_back(std::move(range.value()));
  return {};
}

Status aclprofPop() {
  if (open_ranges().empty()) return {ACL_ERROR_INVALID_PARAM, "this thread has no open range; call aclprofPush first"};
  const Range range = std::move(open_ranges().back());
  open_ranges().pop_back();
  mark(range.text, range.start_ns, profiler()->now());
  return {};
}

Status aclprofRangeStart(void* stamp, uint32_t* rangeId) {
  Result<Range> range = begin(stamp);
  if (!range.ok()) return range.take_status();
  Objects& objects = Objects::get();
  const std::lock_guard guard(objects.mutex);
  do {
    ++objects.newest_range;
  } while (objects.newest_range == 0 || objects.ranges.contains(objects.newest_range));
  *rangeId = objects.newest_range;
  objects.ranges.emplace(*rangeId, std::move(range.value()));
  return {};
}

Status aclprofRangeStop(uint32_t rangeId) {
  Range range;
  {
    Objects& objects = Objects::get();
    const std::lock_guard guard(objects.mutex);
    const auto found = objects.ranges.find(rangeId);
    if (found == objects.ranges.end()) {
      return {ACL_ERROR_INVALID_PARAM, text("argument 'rangeId' (", rangeId, ") is not an open range of aclprofRangeStart")};
    }
    range = std::move(found->second);
    objects.ranges.erase(found);
  }
  mark(range.text, range.start_ns, profiler()->now());
  return {};
}

Status aclprofGetStepTimestamp(aclprofStepInfo* stepInfo, aclprofStepTag tag, aclrtStream stream) {
  if (tag != ACL_STEP_START && tag != ACL_STEP_END) {
    return {ACL_ERROR_INVALID_PARAM, text("argument 'tag' (", int(tag), ") is neither ACL_STEP_START nor ACL_STEP_END")};
  }
  Step step;
  {
    Objects& objects = Objects::get();
    const std::lock_guard guard(objects.mutex);
    const auto found = objects.steps.find(stepInfo);
    if (found == objects.steps.end()) {
      return {ACL_ERROR_INVALID_PARAM, "argument 'stepInfo' was not made by aclprofCreateStepInfo, or was destroyed"};
    }
    step = found->second;
    const bool begins = tag == ACL_STEP_START;
    if (step->has_begun == begins) {
      return {ACL_ERROR_INVALID_PARAM, begins ? "the step has already begun; pass ACL_STEP_END first"
                                              : "the step has not begun; pass ACL_STEP_START first"};
    }
    step->has_begun = begins;
  }
  if (!Recordings::get().records_steps()) return {};
  return launch("aclprofGetStepTimestamp", kStepKind, std::make_unique<StepAction>(std::move(step), tag), stream);
}

}  // namespace api
}  // namespace softnpu::prof

using softnpu::prof::Objects;

void* aclprofCreateStamp() {
  return softnpu::prof::entry::value_or<void*>(nullptr, "aclprofCreateStamp", []() -> softnpu::Result<void*> {
    auto stamp = std::make_unique<std::string>();
    void* const created = stamp.get();
    const std::lock_guard guard(Objects::get().mutex);
    Objects::get().stamps[created] = std::move(stamp);
    return created;
  });
}

void aclprofDestroyStamp(void* stamp) {
  const std::lock_guard guard(Objects::get().mutex);
  Objects::get().stamps.erase(stamp);
}

aclprofStepInfo* aclprofCreateStepInfo() {
  using Result = softnpu::Result<aclprofStepInfo*>;
  return softnpu::prof::entry::value_or<aclprofStepInfo*>(nullptr, "aclprofCreateStepInfo", []() -> Result {
    auto step = std::make_shared<aclprofStepInfo>();
    aclprofStepInfo* const created = step.get();
    const std::lock_guard guard(Objects::get().mutex);
    Objects::get().steps[created] = std::move(step);
    return created;
  });
}

void aclprofDestroyStepInfo(aclprofStepInfo* stepinfo) {
  const std::lock_guard guard(Objects::get().mutex);
  Objects::get().steps.erase(stepinfo);
}
