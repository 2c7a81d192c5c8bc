// Operator dumps: while a dump is on, every launched operator writes a file with its inputs and outputs.
//
//   SOFTNPU_RETURN_IF_ERROR(Dumps::initialise());         // aclmdlInitDump
//   SOFTNPU_RETURN_IF_ERROR(Dumps::set("dump.json"));     // aclmdlSetDump: from now on
//   SOFTNPU_RETURN_IF_ERROR(Dumps::finalise());           // aclmdlFinalizeDump
//
// A file is {dump_path}/{time}/{device}/{model}/{index}/{type}.{name}.{task}.{stream}.{microseconds}. `time` is the time of
// set(). `device` is the number of the device on the host. `model` and `index` are the numbers of the graph and of its replay,
// and 0 outside of replays. A captured operator is not dumped during the capture. It is dumped in each replay that is submitted
// while the dump is on. An operator that fails writes no file.
//
// set() fails for mistakes in the configuration. If a folder cannot be written, now or later, the dump stops with one sentence on
// stderr and in the log, and the program continues. Thread-safe.
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
  // Makes a folder at the first call for it. A folder that was removed since is not made again.
  Status make_folder(const std::string& folder);

  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }
  // Ends the dump and prints the reason. Later calls do nothing.
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
  // Waits for the files of operators that have run. Operators that were launched but have not run yet still write their files.
  static Status finalise();

  // Begins the dump that the configuration file of aclInit describes. initialise() fails from then until end().
  static Status start(DumpConfig config);
  // Ends any dump. Called by aclFinalize.
  static void end();
  // Waits for the files of operators that have run. Called when the process exits.
  static void finish_files();

  static bool are_on() { return submit_hooks.load(std::memory_order_relaxed) & kDumpHook; }
  // Null if no dump is on.
  static std::shared_ptr<DumpSession> session();
};

}  // namespace softnpu
