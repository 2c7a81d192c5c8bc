// A folder PROF_NUMBER_TIME_LETTERS of results. Lines are appended by write(2) and never changed, so that the folder can be read
// up to its last whole line whenever the process dies. docs of the layout: python/torch_npu/profiler/records.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/status.h"

namespace softnpu::prof {

class ResultFolder {
 public:
  // Makes the folder in `parent`. ACL_ERROR_INVALID_FILE if that is impossible.
  static Result<ResultFolder> create(const std::string& parent);
  ResultFolder() = default;
  ~ResultFolder();
  ResultFolder(ResultFolder&& other) noexcept { *this = std::move(other); }
  ResultFolder& operator=(ResultFolder&& other) noexcept;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

  // Appends to a file below the folder, such as "host/calls.jsonl", which is made. After a failure all later calls do nothing and
  // return it: ACL_ERROR_WRITE_FILE.
  Status append(const std::string& file, const std::string& text);
  Status failure() const { return failure_.copy(); }

 private:
  Status open(const std::string& file, int* descriptor);

  std::string path_;
  std::map<std::string, int> files_;
  uint64_t bytes_ = 0;
  Status failure_;
};

// Makes `path` and the folders above it. ACL_ERROR_INVALID_FILE if that is impossible, or if no file can be made there.
Status make_writable_folder(const std::string& path);

}  // namespace softnpu::prof
