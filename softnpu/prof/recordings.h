// The state between aclprofInit and aclprofFinalize: path, settings, configurations and active recordings. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "prof/recording.h"

namespace softnpu::prof {

class Recordings {
 public:
  static Recordings& get();

  Status init(const std::string& path);
  Status finalize();
  Status set(aclprofConfigType type, const std::string& value);
  Result<aclprofConfig*> create_config(aclprofConfig config);
  Status destroy_config(const aclprofConfig* config);
  Status warm_up(const aclprofConfig* config);
  Status start(const aclprofConfig* config);
  Status stop(const aclprofConfig* config);

  bool is_open();
  // Adds the step to every active recording.
  void add_step(uint64_t start_ns, uint64_t end_ns);
  bool records_steps();

 private:
  Status check_config(const aclprofConfig* config) const;

  std::mutex mutex_;  // guards the members below
  std::string path_;  // empty: not initialised
  Settings settings_;
  uint64_t most_bytes_ = UINT64_MAX;
  std::map<const aclprofConfig*, std::unique_ptr<aclprofConfig>> configs_;
  std::map<const aclprofConfig*, std::unique_ptr<Recording>> running_;
};

}  // namespace softnpu::prof
