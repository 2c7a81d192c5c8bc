#include "prof/result_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

namespace softnpu::prof {
namespace {

constexpr int kAttempts = 100;

std::string moment() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm fields{};
  localtime_r(&now.tv_sec, &fields);
  char date[32], milliseconds[8];
  strftime(date, sizeof date, "%Y%m%d%H%M%S", &fields);
  std::snprintf(milliseconds, sizeof milliseconds, "%03d", int(now.tv_nsec / 1'000'000));
  return std::string(date) + milliseconds;
}

std::string random_letters(size_t count) {
  std::random_device random;
  std::string letters;
  while (letters.size() < count) letters += char('A' + random() % 26);
  return letters;
}

size_t count_results(const std::string& parent) {
  std::error_code ignored;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    count += entry.path().filename().string().starts_with("PROF_");
  }
  return count;
}

Status cannot(const char* what, const std::string& path, aclError code) {
  return {code, text(path, " cannot be ", what, ": ", std::strerror(errno))};
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(size_t(written));
  }
  return true;
}

}  // namespace

Status make_writable_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return {ACL_ERROR_INVALID_FILE,
            text("the folder ", path, " for the results of the profiler cannot be made: ", error.message())};
  if (access(path.c_str(), W_OK | X_OK) != 0) return cannot("written", path, ACL_ERROR_INVALID_FILE);
  return {};
}

Result<ResultFolder> ResultFolder::create(const std::string& parent) {
  ResultFolder folder;
  const size_t number = count_results(parent) + 1;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    char prefix[24];
    std::snprintf(prefix, sizeof prefix, "PROF_%06zu_", number % 1'000'000);
    folder.path_ = text(parent, "/", prefix, moment(), "_", random_letters(16));
    if (mkdir(folder.path_.c_str(), 0750) == 0) break;
    if (errno != EEXIST || attempt + 1 == kAttempts) return cannot("made", folder.path_, ACL_ERROR_INVALID_FILE);
  }
  if (mkdir((folder.path_ + "/host").c_str(), 0750) != 0) return cannot("made", folder.path_ + "/host", ACL_ERROR_INVALID_FILE);
  return folder;
}

ResultFolder::~ResultFolder() {
  for (const auto& [name, file] : files_) close(file);
}

ResultFolder& ResultFolder::operator=(ResultFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(files_, other.files_);
  std::swap(bytes_, other.bytes_);
  std::swap(failure_, other.failure_);
  return *this;
}

Status ResultFolder::open(const std::string& file, int* descriptor) {
  const auto known = files_.find(file);
  if (known != files_.end()) {
    *descriptor = known->second;
    return {};
  }
  const std::string path = path_ + "/" + file;
  mkdir(path.substr(0, path.rfind('/')).c_str(), 0750);  // open() reports a missing folder
  *descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (*descriptor < 0) return cannot("written", path, ACL_ERROR_WRITE_FILE);
  files_[file] = *descriptor;
  return {};
}

Status ResultFolder::append(const std::string& file, const std::string& text) {
  if (!failure_.ok()) return failure();
  int descriptor = -1;
  failure_ = open(file, &descriptor);
  if (failure_.ok() && !write_all(descriptor, text)) {
    failure_ = cannot("written", path_ + "/" + file, ACL_ERROR_WRITE_FILE);
  }
  bytes_ += text.size();
  return failure();
}

}  // namespace softnpu::prof
