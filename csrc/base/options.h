// Every environment variable that the plugin reads, in one place.
//
//   if (options().launch_blocking) ...
//
// The environment is read once, by the first call of options(). Unset or empty means the default. After a bad value the program
// goes on: one warning names the variable, its value, the allowed values and the value in use. Some variables of other devices
// have no effect here. Their values are checked too, and their rows of docs/environment.md give the reason.
#pragma once

#include <c10/macros/Export.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/affinity.h"
#include "base/log.h"

namespace torch_npu {

struct Options {
  std::string library_path;                              // TORCH_NPU_LIBRARY_PATH
  std::string cann_home;                                 // ASCEND_HOME_PATH, else ASCEND_TOOLKIT_HOME
  std::string custom_op_path;                            // ASCEND_CUSTOM_OPP_PATH
  std::string allocator;                                 // PYTORCH_NPU_ALLOC_CONF
  std::string shared_allocator;                          // PYTORCH_ALLOC_CONF
  bool oom_snapshot = false;                             // OOM_SNAPSHOT_ENABLE is 1 or 2
  bool oom_history = false;                              // OOM_SNAPSHOT_ENABLE is 1
  std::string oom_snapshot_dir = ".";                    // OOM_SNAPSHOT_PATH
  bool no_caching = false;                               // PYTORCH_NO_NPU_MEMORY_CACHING
  bool launch_blocking = false;                          // ASCEND_LAUNCH_BLOCKING=1 or TASK_QUEUE_ENABLE=0
  bool debug = false;                                    // TORCH_NPU_DEBUG
  bool strict_fallback = false;                          // TORCH_NPU_STRICT_FALLBACK or ..._FALLBACK_CPU_DISABLE, at first
  bool inf_nan = true;                                   // INF_NAN_MODE_ENABLE
  bool may_saturate = false;                             // INF_NAN_MODE_FORCE_DISABLE
  int64_t device_timeout = -1;                           // ACL_DEVICE_SYNC_TIMEOUT, in milliseconds; -1: none
  int64_t stream_timeout = -1;                           // ACL_STREAM_TIMEOUT, in milliseconds; -1: none
  int64_t streams_per_device = 32;                       // STREAMS_PER_DEVICE
  bool resume_mode = false;                              // RESUME_MODE_ENABLE
  bool compact_errors = false;                           // TORCH_NPU_COMPACT_ERROR_OUTPUT
  bool warnings = true;                                  // TORCH_NPU_WARNING_DISABLE=0
  LogLevels logs = kNoLogs;                              // TORCH_NPU_LOGS
  bool logs_operators = false;                           // ASCEND_GLOBAL_LOG_LEVEL is 0 or 1
  std::string logs_filter;                               // TORCH_NPU_LOGS_FILTER
  Affinity affinity;                                     // CPU_AFFINITY_CONF
  std::string init_config;                               // TORCH_ACL_INIT_CONFIG_PATH
  std::optional<std::pair<int, int>> device_capability;  // TORCH_NPU_DEVICE_CAPABILITY
  bool transfer_to_npu = false;                          // TORCH_TRANSFER_TO_NPU
  int64_t graph_files = 0;                               // DUMP_GE_GRAPH; 0: none
  bool dump_operators = false;                           // ACL_DUMP_DATA
  // Process groups of hccl.
  bool blocking_wait = false;                        // HCCL_BLOCKING_WAIT
  int64_t error_handling = 1;                        // HCCL_ASYNC_ERROR_HANDLING
  bool desync_debug = false;                         // HCCL_DESYNC_DEBUG
  bool high_priority_groups = false;                 // TORCH_HCCL_HIGH_PRIORITY
  int64_t trace_size = 0;                            // TORCH_HCCL_TRACE_BUFFER_SIZE
  bool dump_on_timeout = false;                      // TORCH_HCCL_DUMP_ON_TIMEOUT
  std::string trace_file = "/tmp/hccl_trace_rank_";  // TORCH_HCCL_DEBUG_INFO_TEMP_FILE
  // First values of the switches of torch.npu.debug, which checks the expressions.
  std::string force_fallback;                   // TORCH_NPU_FORCE_FALLBACK
  std::string compare;                          // TORCH_NPU_COMPARE
  bool compare_raise = false;                   // TORCH_NPU_COMPARE_RAISE
  std::string compare_dir = "npu_differences";  // TORCH_NPU_COMPARE_DIR
  std::string print_ops;                        // TORCH_NPU_PRINT_OPS
};

// Thread-safe; the reference stays valid until the process ends.
C10_EXPORT const Options& options();

// A row of docs/environment.md.
struct OptionDoc {
  std::string_view name;
  std::string_view values;
  std::string_view standard;  // the default, in words
  std::string_view effect;
};

C10_EXPORT std::span<const OptionDoc> option_docs();

}  // namespace torch_npu
