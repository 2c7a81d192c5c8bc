#include "runtime/dump/dumps.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "runtime/base/log.h"
#include "runtime/dump/dump_file.h"
#include "runtime/dump/writer.h"

namespace softnpu {
namespace {

struct DumpState {
  std::mutex mutex;  // guards the members below
  bool is_initialised = false;
  bool is_of_init = false;  // the file of aclInit configured the dump
  std::shared_ptr<DumpSession> session;
};

DumpState& dump_state() {
  static auto* const one = new DumpState;
  return *one;
}

std::string time_of_day() {
  const time_t now = ::time(nullptr);
  tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 16> digits{};
  std::strftime(digits.data(), digits.size(), "%Y%m%d%H%M%S", &parts);
  return digits.data();
}

std::shared_ptr<DumpSession> make_session(DumpConfig config) {
  auto session = std::make_shared<DumpSession>(std::move(config));
  if (!session->config().is_on) {
    warn("\"dump_op_switch\" is \"off\", its default: no operator is dumped; set it to \"on\"");
    return session;
  }
  Status made = session->make_folder(session->config().path);
  if (made.ok() && ::access(session->config().path.c_str(), W_OK | X_OK) != 0)
    made = {ACL_ERROR_INVALID_FILE, text("the folder '", session->config().path, "' cannot be written")};
  if (!made.ok()) session->stop(made.message());
  return session;
}

// The caller holds state.mutex.
void use(DumpState& state, std::shared_ptr<DumpSession> session) {
  state.session = std::move(session);
  set_submit_hook(kDumpHook, state.session != nullptr && state.session->config().is_on);
}

}  // namespace

DumpSession::DumpSession(DumpConfig config) : config_(std::move(config)), folder_(text(config_.path, "/", time_of_day())) {}

Status DumpSession::make_folder(const std::string& folder) {
  const std::lock_guard guard(mutex_);
  if (made_.contains(folder)) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder, error)) {
    const std::string reason = error ? error.message() : "a file has this name";
    return {ACL_ERROR_INVALID_FILE, text("the folder '", folder, "' cannot be made: ", reason)};
  }
  made_.insert(folder);
  return {};
}

void DumpSession::stop(const std::string& reason) {
  if (stopped_.exchange(true, std::memory_order_relaxed)) return;
  const std::string sentence = text("the operator dump stopped after ", files_.load(std::memory_order_relaxed),
                                    " files, and the program continues: ", reason, "; choose another dump_path or free space");
  const std::string printed = text("[WARNING] softnpu: ", sentence, "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, printed.data(), printed.size());
  SOFTNPU_LOG(kError, sentence);
}

Status Dumps::initialise() {
  SOFTNPU_RETURN_IF_ERROR(dump_files_are_possible());
  DumpState& state = dump_state();
  const std::lock_guard guard(state.mutex);
  if (state.is_of_init) {
    return {ACL_ERROR_DUMP_ALREADY_RUN,
            "the configuration file of aclInit has already started a dump; remove its \"dump\" or this call"};
  }
  if (state.is_initialised) {
    return {ACL_ERROR_DUMP_ALREADY_RUN, "a dump is already initialised; end it with aclmdlFinalizeDump first"};
  }
  state.is_initialised = true;
  return {};
}

Status Dumps::set(const char* file) {
  DumpState& state = dump_state();
  const std::lock_guard guard(state.mutex);
  if (!state.is_initialised) return {ACL_ERROR_DUMP_NOT_RUN, "no dump is initialised; call aclmdlInitDump first"};
  Result<DumpConfig> config = read_dump_config(file);
  if (!config.ok()) return config.take_status();
  use(state, make_session(std::move(config.value())));
  return {};
}

Status Dumps::finalise() {
  DumpState& state = dump_state();
  {
    const std::lock_guard guard(state.mutex);
    if (!state.is_initialised) return {ACL_ERROR_DUMP_NOT_RUN, "no dump is initialised; call aclmdlInitDump first"};
    state.is_initialised = false;
    use(state, nullptr);
  }
  finish_files();
  return {};
}

Status Dumps::start(DumpConfig config) {
  SOFTNPU_RETURN_IF_ERROR(dump_files_are_possible());
  DumpState& state = dump_state();
  const std::lock_guard guard(state.mutex);
  state.is_of_init = true;
  use(state, make_session(std::move(config)));
  return {};
}

void Dumps::end() {
  {
    DumpState& state = dump_state();
    const std::lock_guard guard(state.mutex);
    state.is_initialised = state.is_of_init = false;
    use(state, nullptr);
  }
  finish_files();
}

void Dumps::finish_files() { DumpWriter::wait_until_idle(); }

std::shared_ptr<DumpSession> Dumps::session() {
  DumpState& state = dump_state();
  const std::lock_guard guard(state.mutex);
  return state.session;
}

}  // namespace softnpu
