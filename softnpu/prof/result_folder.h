// A folder PROF_NUMBER_TIME_LETTERS of results. Lines are appended by write(2) and never changed. So if the process dies, its
// files can be read up to their last whole line. python/torch_npu/profiler/records.py describes the layout.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/status.h"

namespace softnpu::prof {

class ResultFolder {
 public:
  // Makes a folder in `parent`. Fails with ACL_ERROR_INVALID_FILE.
  static Result<ResultFolder> create(const std::string& parent);
  ResultFolder() = default;
  ~ResultFolder();
  ResultFolder(ResultFolder&& other) noexcept { *this = std::move(other); }
  ResultFolder& operator=(ResultFolder&& other) noexcept;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

  // Appends to a file of the folder, such as "host/calls.jsonl". The first call makes the file. Fails with ACL_ERROR_WRITE_FILE;
  // all calls after a failure do nothing and return the same failure.
  Status append(const std::string& file, const std::string& text);
  Status failure() const { return failure_.copy(); }

 private:
  Status open(const std::string& file, int* descriptor);

  std::string path_;
  std::map<std::string, int> files_;
  uint64_t bytes_ = 0;
  Status failure_;
};

// Makes `path` and the folders above it. Fails with ACL_ERROR_INVALID_FILE, also if no file can be made in `path`.
Status make_writable_folder(const std::string& path);

}  // namespace softnpu::prof
