#include "prof/recordings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "prof/subscriptions.h"

namespace softnpu::prof {
namespace {

constexpr uint64_t kMegabyte = 1'000'000;
constexpr uint64_t kLeastMegabytes = 1;

// Converts a text such as "200MB" into bytes.
Status parse_limit(const std::string& value, uint64_t* bytes) {
  uint64_t megabytes = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, megabytes);
  if (error == std::errc() && std::string_view(rest, size_t(end - rest)) == "MB" && megabytes >= kLeastMegabytes &&
      megabytes <= UINT64_MAX / kMegabyte) {
    *bytes = megabytes * kMegabyte;
    return {};
  }
  return {ACL_ERROR_INVALID_PARAM, text("argument 'config' of ACL_PROF_STORAGE_LIMIT must be a number above 0 and MB, such as ",
                                        "200MB, not '", value, "'")};
}

Status of_parent() { return {ACL_ERROR_PROF_NOT_RUN, "the profile belongs to the parent of this process; end it there"}; }

}  // namespace

Recordings& Recordings::get() {
  static auto* const one = new Recordings;
  return *one;
}

Status Recordings::init(const std::string& path) {
  if (Subscriptions::get().any()) {
    return {ACL_ERROR_PROF_API_CONFLICT, "a subscription is open; call aclprofModelUnSubscribe first"};
  }
  const std::lock_guard guard(mutex_);
  if (!path_.empty()) {
    return {ACL_ERROR_REPEAT_INITIALIZE, text("a profile is already open, in ", path_, "; call aclprofFinalize first")};
  }
  SOFTNPU_RETURN_IF_ERROR(make_writable_folder(path));
  path_ = std::filesystem::absolute(path).string();  // the program may change its working directory
  settings_.clear();
  most_bytes_ = UINT64_MAX;
  return {};
}

Status Recordings::finalize() {
  std::map<const aclprofConfig*, std::unique_ptr<Recording>> running;
  {
    const std::lock_guard guard(mutex_);
    if (path_.empty()) return {ACL_ERROR_UNINITIALIZE, "no profile is open; call aclprofInit first"};
    for (const auto& [config, recording] : running_) {
      if (!recording->is_of_this_process()) return of_parent();
    }
    path_.clear();
    running.swap(running_);
  }
  Status first;
  for (const auto& [config, recording] : running) {
    Status status = recording->stop();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status Recordings::set(aclprofConfigType type, const std::string& value) {
  const std::lock_guard guard(mutex_);
  if (path_.empty()) return {ACL_ERROR_UNINITIALIZE, "no profile is open; call aclprofInit first"};
  if (type <= ACL_PROF_ARGS_MIN || type >= ACL_PROF_ARGS_MAX) {
    return {ACL_ERROR_INVALID_PARAM,
            text("argument 'configType' (", int(type), ") is not an aclprofConfigType; it is 1 to ", ACL_PROF_ARGS_MAX - 1)};
  }
  if (value.empty()) return {ACL_ERROR_INVALID_PARAM, "argument 'config' is empty"};
  if (type == ACL_PROF_PATH) {
    return {ACL_ERROR_FEATURE_UNSUPPORTED, "ACL_PROF_PATH is not supported; pass the path to aclprofInit"};
  }
  if (!running_.empty()) return {ACL_ERROR_PROF_ALREADY_RUN, "a recording is active; call this before aclprofStart"};
  if (type == ACL_PROF_STORAGE_LIMIT) SOFTNPU_RETURN_IF_ERROR(parse_limit(value, &most_bytes_));
  settings_[type] = value;
  return {};
}

Result<aclprofConfig*> Recordings::create_config(aclprofConfig config) {
  auto owned = std::make_unique<aclprofConfig>(std::move(config));
  aclprofConfig* const created = owned.get();
  const std::lock_guard guard(mutex_);
  configs_[created] = std::move(owned);
  return created;
}

Status Recordings::check_config(const aclprofConfig* config) const {
  if (configs_.contains(config)) return {};
  return {ACL_ERROR_INVALID_PROFILING_CONFIG, "argument 'profilerConfig' was not made by aclprofCreateConfig, or was destroyed"};
}

Status Recordings::destroy_config(const aclprofConfig* config) {
  const std::lock_guard guard(mutex_);
  SOFTNPU_RETURN_IF_ERROR(check_config(config));
  if (running_.contains(config)) {
    return {ACL_ERROR_PROF_ALREADY_RUN, "the configuration is in use by a profile; call aclprofStop first"};
  }
  configs_.erase(config);
  return {};
}

Status Recordings::warm_up(const aclprofConfig* config) {
  const std::lock_guard guard(mutex_);
  if (path_.empty()) return {ACL_ERROR_UNINITIALIZE, "no profile is open; call aclprofInit first"};
  return check_config(config);
}

Status Recordings::start(const aclprofConfig* config) {
  const std::lock_guard guard(mutex_);
  if (path_.empty()) return {ACL_ERROR_UNINITIALIZE, "no profile is open; call aclprofInit first"};
  SOFTNPU_RETURN_IF_ERROR(check_config(config));
  for (const auto& [other, recording] : running_) {
    if (config->has_common_device(*other)) {
      return {ACL_ERROR_PROF_ALREADY_RUN, "a device of this configuration is already recorded; call aclprofStop first"};
    }
  }
  Result<std::unique_ptr<Recording>> recording = Recording::start(*config, path_, settings_, most_bytes_);
  if (!recording.ok()) return recording.take_status();
  running_[config] = std::move(recording.value());
  return {};
}

Status Recordings::stop(const aclprofConfig* config) {
  std::unique_ptr<Recording> recording;
  {
    const std::lock_guard guard(mutex_);
    SOFTNPU_RETURN_IF_ERROR(check_config(config));
    const auto found = running_.find(config);
    if (found == running_.end()) {
      return {running_.empty() ? ACL_ERROR_PROF_NOT_RUN : ACL_ERROR_INVALID_PROFILING_CONFIG,
              running_.empty() ? "nothing is recorded; call aclprofStart first"
                               : "the profile was started with another configuration; pass that one"};
    }
    if (!found->second->is_of_this_process()) return of_parent();
    recording = std::move(found->second);
    running_.erase(found);
  }
  return recording->stop();
}

bool Recordings::is_open() {
  const std::lock_guard guard(mutex_);
  return !path_.empty();
}

void Recordings::add_step(uint64_t start_ns, uint64_t end_ns) {
  const std::lock_guard guard(mutex_);
  for (const auto& [config, recording] : running_) recording->add_step(start_ns, end_ns);
}

bool Recordings::records_steps() {
  const std::lock_guard guard(mutex_);
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& running) { return (running.first->bits & ACL_PROF_TRAINING_TRACE) != 0; });
}

}  // namespace softnpu::prof
