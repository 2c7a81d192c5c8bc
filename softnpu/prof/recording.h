// One recording, from aclprofStart to aclprofStop. A thread writes the records to a folder PROF_*.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl/acl_prof.h"
#include "prof/record_loop.h"
#include "prof/result_folder.h"

// A configuration of aclprofCreateConfig. Its type is opaque to programs.
struct aclprofConfig {
  std::vector<int32_t> devices;
  aclprofAicoreMetrics metrics;
  uint64_t bits;  // ACL_PROF_*

  bool has_common_device(const aclprofConfig& other) const;
};

namespace softnpu::prof {

const char* metrics_name(aclprofAicoreMetrics metrics);  // "ACL_AICORE_NONE" ...; null for an unknown one

// The settings of aclprofSetConfig: the text by the aclprofConfigType.
using Settings = std::map<int, std::string>;

class Recording {
 public:
  // Makes a folder in `parent` and begins to record. Records beyond `most_bytes` are counted and not written.
  static Result<std::unique_ptr<Recording>> start(const aclprofConfig& config, const std::string& parent,
                                                  const Settings& settings, uint64_t most_bytes);

  const aclprofConfig& config() const { return config_; }
  // Adds a step that has ended. Thread-safe.
  void add_step(uint64_t start_ns, uint64_t end_ns);
  // See RecordLoop.
  bool is_of_this_process() const { return loop_->is_of_this_process(); }
  // Ends the thread and completes the folder. Returns the first failure to write; the folder is readable even then.
  Status stop();

 private:
  Recording(const aclprofConfig& config, ResultFolder folder, uint64_t most_bytes);
  Status write_info(const Settings& settings);
  void write(const Batch& batch);
  void put(const std::string& file, const std::string& lines, uint64_t records);
  void write_steps();
  bool wants(const SoftnpuTaskRecord& task) const;

  const aclprofConfig config_;
  const uint64_t most_bytes_;
  ResultFolder folder_;  // used by the thread of the loop only, from start() to stop()
  uint64_t dropped_ = 0;
  uint64_t skipped_ = 0;  // tasks that did not run because an earlier one failed
  uint64_t newest_ns_ = 0;
  std::mutex mutex_;
  std::vector<std::pair<uint64_t, uint64_t>> steps_;  // guarded by mutex_
  uint64_t steps_written_ = 0;
  std::unique_ptr<RecordLoop> loop_;
};

}  // namespace softnpu::prof
