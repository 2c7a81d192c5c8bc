// The last operations of all groups of this process, for finding out why ranks wait for each other.
//
//   FlightRecorder::get().add(operation);
//   FlightRecorder::get().to_json(true)     // {"version": "2.4", "entries": [...]}
//
// Keeps TORCH_HCCL_TRACE_BUFFER_SIZE operations; with 0, the default, nothing. Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace torch_npu::distributed {

class Operation;

class C10_EXPORT FlightRecorder {
 public:
  static FlightRecorder& get();

  void add(const std::shared_ptr<Operation>& operation);
  // The newest last. With `only_active`, without those that are done.
  std::string to_json(bool only_active, const std::string& reason = {}) const;
  // Writes to_json() to TORCH_HCCL_DEBUG_INFO_TEMP_FILE and the rank. Returns the path; empty if that failed.
  std::string dump(int global_rank, const std::string& reason) const;
  // Forgets all operations.
  void clear();

 private:
  FlightRecorder();

  const size_t size_;
  mutable std::mutex mutex_;
  uint64_t added_ = 0;
  std::deque<std::shared_ptr<Operation>> operations_;
};

}  // namespace torch_npu::distributed
