#include "prof/subscriptions.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "prof/recordings.h"
#include "runtime/profile/record_names.h"

namespace softnpu::prof {
namespace {

constexpr int kPatienceMs = 1000;  // the longest wait for a full pipe

template <size_t kSize>
void copy_text(char (&target)[kSize], std::string_view source) {
  const size_t length = std::min(source.size(), kSize - 1);
  std::memcpy(target, source.data(), length);
  target[length] = '\0';
}

// Writes a record and blocks while the pipe is full. False if the reader has closed the pipe, or does not read for a second. The
// thread of a RecordLoop blocks SIGPIPE.
bool send(int pipe, const OpInfo& info) {
  static_assert(sizeof info <= 4096, "writes up to PIPE_BUF are atomic");
  for (;;) {
    pollfd ready{.fd = pipe, .events = POLLOUT, .revents = 0};
    const int found = poll(&ready, 1, kPatienceMs);
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0 || (ready.revents & POLLOUT) == 0) return false;
    const ssize_t written = write(pipe, &info, sizeof info);
    if (written == ssize_t(sizeof info)) return true;
    if (written >= 0 || (errno != EINTR && errno != EAGAIN)) return false;
  }
}

}  // namespace

class Subscriptions::Pipe {
 public:
  // Owns `pipe`.
  Pipe(uint32_t model, bool has_times, int pipe)
      : model_(model),
        has_times_(has_times),
        pipe_(pipe),
        loop_(SOFTNPU_RECORD_TASKS, [this](const Batch& batch) { write(batch); }) {}
  ~Pipe() {
    loop_.end();
    close(pipe_);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool is_of_this_process() const { return loop_.is_of_this_process(); }
  // Ends the thread. Returns the number of operators that were not written to the pipe.
  uint64_t end() {
    loop_.end();
    return lost_;
  }

 private:
  void write(const Batch& batch) {
    for (const Batch::Task& task : batch.tasks) {
      const TaskClass kind = class_of(task.record.name);
      if (task.record.skipped || (kind != TaskClass::kKernel && kind != TaskClass::kCollective)) continue;
      OpInfo info;
      info.model = model_;
      if (has_times_) {
        info.start_ns = task.record.start_ns;
        info.end_ns = task.record.end_ns;
      }
      std::snprintf(info.thread, sizeof info.thread, "%u", task.record.thread);
      copy_text(info.type, operator_type(task.record.name));
      copy_text(info.name, task.record.name);
      if (lost_ > 0 || !send(pipe_, info)) ++lost_;
    }
  }

  const uint32_t model_;
  const bool has_times_;
  const int pipe_;
  uint64_t lost_ = 0;  // used by the thread of the loop, and after its end
  RecordLoop loop_;    // the last member, because its thread uses the others
};

Subscriptions& Subscriptions::get() {
  static auto* const one = new Subscriptions;
  return *one;
}

Result<aclprofSubscribeConfig*> Subscriptions::create_config(aclprofSubscribeConfig config) {
  auto owned = std::make_unique<aclprofSubscribeConfig>(config);
  aclprofSubscribeConfig* const created = owned.get();
  const std::lock_guard guard(mutex_);
  configs_[created] = std::move(owned);
  return created;
}

Status Subscriptions::destroy_config(const aclprofSubscribeConfig* config) {
  const std::lock_guard guard(mutex_);
  if (configs_.erase(config) > 0) return {};
  return {ACL_ERROR_INVALID_PARAM,
          "argument 'profSubscribeConfig' was not made by aclprofCreateSubscribeConfig, or was destroyed"};
}

Status Subscriptions::subscribe(uint32_t model, const aclprofSubscribeConfig* config) {
  if (Recordings::get().is_open()) {
    return {ACL_ERROR_PROF_API_CONFLICT, "a profile is open; call aclprofFinalize before a subscription"};
  }
  const std::lock_guard guard(mutex_);
  const auto found = configs_.find(config);
  if (found == configs_.end()) {
    return {ACL_ERROR_INVALID_PARAM,
            "argument 'profSubscribeConfig' was not made by aclprofCreateSubscribeConfig, or was destroyed"};
  }
  if (open_.contains(model)) {
    return {ACL_ERROR_PROF_REPEAT_SUBSCRIBE, text("model ", model, " has a subscription; call aclprofModelUnSubscribe first")};
  }
  const int pipe = fcntl(found->second->pipe, F_DUPFD_CLOEXEC, 0);
  if (pipe < 0) return {ACL_ERROR_INVALID_PARAM, text("the pipe of the subscription is closed: ", std::strerror(errno))};
  open_[model] = std::make_unique<Pipe>(model, found->second->has_times, pipe);
  return {};
}

Status Subscriptions::unsubscribe(uint32_t model) {
  std::unique_ptr<Pipe> pipe;
  {
    const std::lock_guard guard(mutex_);
    const auto found = open_.find(model);
    if (found == open_.end()) {
      return {ACL_ERROR_INVALID_MODEL_ID, text("model ", model, " has no subscription; call aclprofModelSubscribe first")};
    }
    if (!found->second->is_of_this_process()) {
      return {ACL_ERROR_PROF_NOT_RUN,
              text("the subscription to model ", model, " belongs to the parent of this process; end it there")};
    }
    pipe = std::move(found->second);
    open_.erase(found);
  }
  const uint64_t lost = pipe->end();
  if (lost == 0) return {};
  return {ACL_ERROR_WRITE_FILE,
          text("the pipe did not accept ", lost, " operators; read the pipe until aclprofModelUnSubscribe returns")};
}

bool Subscriptions::any() {
  const std::lock_guard guard(mutex_);
  return !open_.empty();
}

}  // namespace softnpu::prof
