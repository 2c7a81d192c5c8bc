#include "runtime/api/error.h"

#include <mutex>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/device/process.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

std::mutex g_mutex;
std::string& shared_error() {  // guarded by g_mutex
  static auto* text = new std::string;
  return *text;
}

}  // namespace

void set_recent_error(std::string message, const char* function, LogLevel level) {
  // A child of fork() does not log: the locks of the log may be held in it.
  if (!Process::is_forked_child() && log_enabled(level)) log_line(level, {"entries.cpp", 0, function}, message);
  if (Process::shares_recent_error()) {
    std::lock_guard guard(g_mutex);
    shared_error() = std::move(message);
    return;
  }
  thread_state().recent_error = std::move(message);
}

const char* take_recent_error() {
  ThreadState& state = thread_state();
  state.handed_out = std::exchange(state.recent_error, {});
  if (Process::shares_recent_error()) {
    std::lock_guard guard(g_mutex);
    if (!shared_error().empty()) state.handed_out = std::exchange(shared_error(), {});
  }
  return state.handed_out.empty() ? nullptr : state.handed_out.c_str();
}

}  // namespace softnpu
