// Operator dumps: while one is on, every operator that is launched writes a file with its inputs and outputs.
//
//   SOFTNPU_RETURN_IF_ERROR(Dumps::initialise());         // aclmdlInitDump
//   SOFTNPU_RETURN_IF_ERROR(Dumps::set("dump.json"));     // aclmdlSetDump: from now on
//   SOFTNPU_RETURN_IF_ERROR(Dumps::finalise());           // aclmdlFinalizeDump
//
// A file is {dump_path}/{time}/{device}/{model}/{index}/{type}.{name}.{task}.{stream}.{microseconds}: time is that of set(),
// device the number on the host; model and index are 0, or for a replay the numbers of the graph and of its replay. Captured
// operators are not dumped, their replays are, if the dump is on when the replay is submitted. An operator that fails writes no
// file.
//
// Mistakes in the configuration are failures of set(). A folder that cannot be written, now or later, is one sentence on stderr
// and in the log: the dump stops, and the program goes on. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/submit_hooks.h"
#include "runtime/dump/config.h"

namespace softnpu {

// One dump, from set() to the end of its last file.
class DumpSession {
 public:
  explicit DumpSession(DumpConfig config);

  const DumpConfig& config() const { return config_; }
  // {dump_path}/{time}.
  const std::string& folder() const { return folder_; }
  // Makes a folder, once. A folder that someone removed is not made again.
  Status make_folder(const std::string& folder);

  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }
  // Ends the dump and says why, once.
  void stop(const std::string& reason);
  void note_file() { files_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const DumpConfig config_;
  std::string folder_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> files_{0};
  std::mutex mutex_;
  std::set<std::string> made_;  // guarded by mutex_
};

class Dumps {
 public:
  static Status initialise();
  static Status set(const char* file);
  // Waits for the files of operators that have run. Operators that were launched before and run later write theirs, too.
  static Status finalise();

  // The dump of the configuration of aclInit. initialise() then fails until end().
  static Status start(DumpConfig config);
  // aclFinalize: ends any dump.
  static void end();
  // At process exit: waits for the files of operators that have run.
  static void finish_files();

  static bool are_on() { return submit_hooks.load(std::memory_order_relaxed) & kDumpHook; }
  // Null if none is on.
  static std::shared_ptr<DumpSession> session();
};

}  // namespace softnpu
