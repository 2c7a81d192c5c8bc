// Subscriptions: kernels and collectives as fixed-size records in a pipe of the program. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "acl/acl_prof.h"
#include "prof/record_loop.h"
#include "runtime/base/status.h"

struct aclprofSubscribeConfig {
  bool has_times;
  int pipe;
};

namespace softnpu::prof {

// The record of an operator in the pipe. aclprofGetOpDescSize() returns its size.
struct OpInfo {
  static constexpr uint32_t kMagic = 0x4f50494e;

  uint32_t magic = kMagic;
  uint32_t model = 0;
  uint64_t start_ns = 0;  // both are 0 if the subscription has no times
  uint64_t end_ns = 0;
  char thread[16] = {};
  char type[ACL_PROF_MAX_OP_TYPE_LEN] = {};
  char name[ACL_PROF_MAX_OP_NAME_LEN] = {};
};

class Subscriptions {
 public:
  static Subscriptions& get();

  Result<aclprofSubscribeConfig*> create_config(aclprofSubscribeConfig config);
  Status destroy_config(const aclprofSubscribeConfig* config);
  Status subscribe(uint32_t model, const aclprofSubscribeConfig* config);
  Status unsubscribe(uint32_t model);
  bool any();

 private:
  class Pipe;

  std::mutex mutex_;  // guards the members below
  std::map<const aclprofSubscribeConfig*, std::unique_ptr<aclprofSubscribeConfig>> configs_;
  std::map<uint32_t, std::unique_ptr<Pipe>> open_;
};

}  // namespace softnpu::prof
