#include "runtime/base/options.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>

#include "runtime/base/fault_rules.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/base/status.h"

namespace softnpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTiB = uint64_t{1} << 40;
constexpr uint64_t kLeastMemory = 16 * kMiB;
constexpr int kMostDevices = 64;

constexpr std::string_view kSocNames[] = {
    "Ascend910A",     "Ascend910ProA",  "Ascend910PremiumA", "Ascend910ProB",  "Ascend910B",     "Ascend910B1",
    "Ascend910B2",    "Ascend910B2C",   "Ascend910B3",       "Ascend910B4",    "Ascend910B4-1",  "Ascend910_9391",
    "Ascend910_9392", "Ascend910_9381", "Ascend910_9382",    "Ascend910_9372", "Ascend910_9362", "Ascend310P1",
    "Ascend310P2",    "Ascend310P3",    "Ascend310P4",       "Ascend310P5",    "Ascend310P6",    "Ascend310P7",
    "Ascend310B1",    "Ascend310B2",    "Ascend310B3",       "Ascend310B4",
};
constexpr std::string_view kLaunchNames[] = {"hybrid", "queue", "sync", "shuffle"};  // in the order of LaunchMode
constexpr std::string_view kRaceCheckNames[] = {"off", "report", "fail"};            // in the order of RaceCheck

bool parse_bytes(std::string_view value, uint64_t most, uint64_t& out) {
  constexpr std::string_view kSuffixes = "KMGT";
  int shift = 0;
  if (!value.empty()) {
    const size_t suffix = kSuffixes.find(static_cast<char>(value.back() & ~0x20));  // either case
    if (suffix != std::string_view::npos) {
      shift = 10 * static_cast<int>(suffix + 1);
      value.remove_suffix(1);
    }
  }
  const uint64_t unit = uint64_t{1} << shift;
  uint64_t count = 0;
  if (!parse_number(value, (kLeastMemory + unit - 1) / unit, most / unit, count)) return false;
  out = count * unit;
  return true;
}

bool parse_folder(std::string_view value, std::string& out) {
  std::error_code error;
  const auto path = std::filesystem::absolute(value, error);
  if (error) return false;
  out = path.string();
  return true;
}

bool parse_memory_check(std::string_view value, MemoryCheck& out) {
  MemoryCheck check;
  const auto items = split(value);
  for (const std::string_view item : items) {
    if (item == "redzone") {
      check.red_zones = true;
    } else if (item == "poison") {
      check.poison = true;
    } else if (item == "guard") {
      check.guard_pages = true;
    } else if (item != "none" || items.size() != 1) {
      return false;
    }
  }
  out = check;
  return true;
}

// After a bad item, or one that occurs twice, keeps the devices before it, as CUDA_VISIBLE_DEVICES does.
bool parse_visible_devices(std::string_view value, int device_count, std::vector<int>& out) {
  out.clear();
  if (value.empty()) return true;
  for (const std::string_view item : split(value)) {
    int device = 0;
    if (!parse_number(item, 0, device_count - 1, device)) return false;
    if (std::find(out.begin(), out.end(), device) != out.end()) return false;
    out.push_back(device);
  }
  return true;
}

std::string show_bytes(uint64_t bytes) {
  for (const auto& [unit, suffix] : {std::pair{kTiB, "T"}, {kGiB, "G"}, {kMiB, "M"}}) {
    if (bytes >= unit && bytes % unit == 0) return text(bytes / unit, suffix);
  }
  return text(bytes);
}

std::string show_visible_devices(const std::vector<int>& devices) {
  if (devices.empty()) return "no device";
  std::string list;
  for (const int device : devices) list += text(list.empty() ? "" : ",", device);
  return list;
}

// One environment variable. `parse` leaves the default in place, or as much as it could use, and answers false for a bad value.
struct Setting {
  OptionDoc doc;
  bool (*parse)(std::string_view value, Options& options);
  std::string (*show)(const Options& options);
};

constexpr std::array kSettings = {
    Setting{{"SOFTNPU_DEVICE_COUNT", "a whole number from 1 to 64", "8", "number of devices of the host"},
            [](std::string_view value, Options& o) { return parse_number(value, 1, kMostDevices, o.device_count); },
            [](const Options& o) { return text(o.device_count); }},
    Setting{{"SOFTNPU_DEVICE_MEMORY", "bytes, or a number with suffix K, M, G or T; from 16M to 1T",
             "3/4 of the memory of the host or of its control group, in steps of 256M, at most 64G", "memory of each device"},
            [](std::string_view value, Options& o) { return parse_bytes(value, kTiB, o.device_memory); },
            [](const Options& o) { return show_bytes(o.device_memory); }},
    Setting{{"SOFTNPU_HOST_MEMORY", "bytes, or a number with suffix K, M, G or T; from 16M to 64T",
             "85 % of the memory of the host or of its control group",
             "the most memory that all devices of all processes of a user hold together; an allocation beyond it fails as out of "
             "memory"},
            [](std::string_view value, Options& o) { return parse_bytes(value, kMostDevices * kTiB, o.host_memory); },
            [](const Options& o) { return show_bytes(o.host_memory); }},
    Setting{{"SOFTNPU_SOC_NAME",
             "Ascend910A, Ascend910ProA, Ascend910PremiumA, Ascend910ProB, Ascend910B, Ascend910B1, Ascend910B2, Ascend910B2C, "
             "Ascend910B3, Ascend910B4, Ascend910B4-1, Ascend910_9391, Ascend910_9392, Ascend910_9381, Ascend910_9382, "
             "Ascend910_9372, Ascend910_9362, Ascend310P1 to Ascend310P7, Ascend310B1 to Ascend310B4",
             "Ascend910B3", "the name of the chip that the devices report"},
            [](std::string_view value, Options& o) {
              if (std::find(std::begin(kSocNames), std::end(kSocNames), value) == std::end(kSocNames)) return false;
              o.soc_name = value;
              return true;
            },
            [](const Options& o) { return o.soc_name; }},
    Setting{{"SOFTNPU_CHIP_LIMITS", "0 or 1", "0",
             "1: operators have the limits of the chip: float64 is only converted, and computed in tensors of one element; "
             "infinity and NaN of float16 become 65504 and 0, and an overflow sets the device's flag; matrix products and "
             "convolutions of float32 round their operands to float16. Slower"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.chip_limits); },
            [](const Options& o) { return text(o.chip_limits); }},
    Setting{
        {"SOFTNPU_LAUNCH", "hybrid, queue, sync or shuffle", "hybrid",
         "hybrid: a small task on an idle stream runs in the launching call, others are queued; queue: all are queued; "
         "sync: a launch returns after its task is done; shuffle: tasks run while the program waits, streams in a random order. "
         "A program without races has the same results with each"},
        [](std::string_view value, Options& o) { return parse_name(value, kLaunchNames, o.launch); },
        [](const Options& o) { return std::string(kLaunchNames[static_cast<int>(o.launch)]); }},
    Setting{{"SOFTNPU_SHUFFLE_SEED", "a whole number", "0", "the seed of the random order of SOFTNPU_LAUNCH=shuffle"},
            [](std::string_view value, Options& o) { return parse_number(value, uint64_t{0}, UINT64_MAX, o.shuffle_seed); },
            [](const Options& o) { return text(o.shuffle_seed); }},
    Setting{{"SOFTNPU_RACE_CHECK", "off, report or fail, or their numbers 0, 1 and 2", "off",
             "report: two tasks of different streams that access the same memory, at least one of them writing, and that nothing "
             "orders are reported on stderr and in the log; fail: the call that submits the second task fails, too. Slower"},
            [](std::string_view value, Options& o) {
              int number = 0;
              if (!parse_number(value, 0, 2, number)) return parse_name(value, kRaceCheckNames, o.race_check);
              o.race_check = static_cast<RaceCheck>(number);
              return true;
            },
            [](const Options& o) { return std::string(kRaceCheckNames[static_cast<int>(o.race_check)]); }},
    Setting{{"SOFTNPU_MEMORY_CHECK", "none, or a list of redzone, poison, guard separated by commas", "none",
             "redzone: patterns around allocations, checked after each operator and at free; poison: fresh and freed memory is "
             "filled with patterns; guard: inaccessible pages around allocations. For finding errors; slower"},
            [](std::string_view value, Options& o) { return parse_memory_check(value, o.memory_check); },
            [](const Options&) { return std::string("none"); }},
    Setting{{"SOFTNPU_FAULTS", "rules separated by commas, such as malloc:3 or launch:every 7:507015; see checks.md", "none",
             "allocations, tasks and copies fail, start late or give wrong values on purpose, from the start of the program"},
            [](std::string_view value, Options& o) {
              if (value != kFaultsOff && !parse_fault_rules(value).ok()) return false;
              o.faults = value;
              return true;
            },
            [](const Options&) { return std::string("none"); }},
    Setting{
        {"SOFTNPU_DUMP_MEMORY", "bytes, or a number with suffix K, M, G or T; from 16M to 1T", "256M",
         "the most host memory for tensors of an operator dump that are not in their files yet; then streams wait. Tensors of "
         "one operator that need more go through a temporary file in the folder of the dump"},
        [](std::string_view value, Options& o) { return parse_bytes(value, kTiB, o.dump_memory); },
        [](const Options& o) { return show_bytes(o.dump_memory); }},
    Setting{{"SOFTNPU_FAULT_REPORT", "0 or 1", "1",
             "1: a line on stderr explains a SIGSEGV or SIGBUS that device memory causes; the usual handling follows"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.fault_report); },
            [](const Options& o) { return text(o.fault_report); }},
    Setting{{"SOFTNPU_LEDGER_DIR", "a folder", "/dev/shm",
             "folder of the file that counts the device memory of all processes of a user"},
            [](std::string_view value, Options& o) { return parse_folder(value, o.ledger_dir); },
            [](const Options& o) { return o.ledger_dir; }},
    Setting{{"ASCEND_RT_VISIBLE_DEVICES", "numbers of devices separated by commas, each once; empty for none", "all devices",
             "the devices that the process sees, renumbered from 0 in this order"},
            [](std::string_view value, Options& o) { return parse_visible_devices(value, o.device_count, o.visible_devices); },
            [](const Options& o) { return show_visible_devices(o.visible_devices); }},
    Setting{{"ASCEND_GLOBAL_LOG_LEVEL", "0 (debug), 1 (info), 2 (warning), 3 (error) or 4 (none)", "3",
             "the lowest level that is written to the log"},
            [](std::string_view value, Options& o) {
              int level = 0;
              if (!parse_number(value, 0, 4, level)) return false;
              o.log_level = static_cast<LogLevel>(level);
              return true;
            },
            [](const Options& o) { return text(static_cast<int>(o.log_level)); }},
    Setting{{"ASCEND_SLOG_PRINT_TO_STDOUT", "0 or 1", "0", "1: lines of the log go to stdout too"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.log_to_stdout); },
            [](const Options& o) { return text(o.log_to_stdout); }},
    Setting{{"ASCEND_GLOBAL_EVENT_ENABLE", "0 or 1", "0", "1: the log has event lines too"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.log_events); },
            [](const Options& o) { return text(o.log_events); }},
    Setting{{"ASCEND_PROCESS_LOG_PATH", "a folder", "$HOME/ascend/log", "folder of the log; files are in its subfolder plog"},
            [](std::string_view value, Options& o) { return parse_folder(value, o.log_dir); },
            [](const Options& o) { return o.log_dir; }},
};

constexpr std::string_view kVisibleDevices = "ASCEND_RT_VISIBLE_DEVICES";

// The smallest limit of the groups from `path` up to the root of the hierarchy at `mount`. A container may see only the root.
uint64_t group_limit(const std::string& mount, std::filesystem::path path, const char* file) {
  uint64_t limit = UINT64_MAX;
  for (;; path = path.parent_path()) {
    uint64_t bytes = 0;
    std::ifstream in(mount + path.string() + "/" + file);
    if (in >> bytes) limit = std::min(limit, bytes);  // "max" is no number
    if (path == path.parent_path()) return limit;
  }
}

// Bytes that this process may use: the memory of the host, or the limit of its control group (version 1 or 2) if that is lower.
uint64_t available_memory() {
  struct sysinfo info {};
  uint64_t bytes = sysinfo(&info) == 0 ? uint64_t{info.totalram} * info.mem_unit : 4 * kGiB;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "<number>:<controllers>:<path>"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) bytes = std::min(bytes, group_limit("/sys/fs/cgroup", path, "memory.max"));
    if (controllers == "memory") bytes = std::min(bytes, group_limit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
  }
  return bytes;
}

Options defaults() {
  constexpr uint64_t kStep = 256 * kMiB;
  Options options;
  const uint64_t memory = available_memory();
  options.device_memory = std::clamp(memory / 4 * 3 / kStep * kStep, kStep, 64 * kGiB);
  options.host_memory = std::max(memory / 100 * 85, kLeastMemory);
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') options.log_dir = text(home, "/ascend/log");
  return options;
}

std::string warning(const Setting& setting, std::string_view value, const Options& options) {
  constexpr size_t kShown = 100;
  std::string shown(value.substr(0, kShown));
  if (value.size() > kShown) shown += "...";
  return text("bad value '", shown, "' of ", setting.doc.name, "; allowed: ", setting.doc.values, "; using ",
              setting.show(options));
}

struct Loaded {
  Options options;
  std::vector<std::string> warnings;
};

Loaded load() {
  Loaded loaded{defaults(), {}};
  Options& options = loaded.options;
  bool all_visible = true;
  for (const Setting& setting : kSettings) {  // SOFTNPU_DEVICE_COUNT stands before ASCEND_RT_VISIBLE_DEVICES, which needs it
    const char* value = std::getenv(setting.doc.name.data());
    if (value == nullptr) continue;
    const std::string_view trimmed = trim(value);
    if (setting.doc.name == kVisibleDevices) {
      all_visible = false;
    } else if (trimmed.empty()) {
      continue;
    }
    if (!setting.parse(trimmed, options)) loaded.warnings.push_back(warning(setting, value, options));
  }
  if (all_visible) {
    options.visible_devices.resize(options.device_count);
    std::iota(options.visible_devices.begin(), options.visible_devices.end(), 0);
  }
  return loaded;
}

// Called after the options are stored, because the log reads them.
void report(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) warn(warning);
}

}  // namespace

const Options& options() {
  // Takes no lock, not even that of a local static: after a fork() in another thread the child would find it locked.
  static constinit std::atomic<const Loaded*> loaded = nullptr;
  if (const Loaded* ready = loaded.load(std::memory_order_acquire); ready != nullptr) return ready->options;
  auto mine = std::make_unique<const Loaded>(load());
  const Loaded* first = nullptr;
  if (!loaded.compare_exchange_strong(first, mine.get(), std::memory_order_acq_rel)) return first->options;
  const Loaded& kept = *mine.release();
  report(kept.warnings);
  return kept.options;
}

std::span<const OptionDoc> option_docs() {
  static constexpr auto kDocs = [] {
    std::array<OptionDoc, kSettings.size()> docs;
    std::transform(kSettings.begin(), kSettings.end(), docs.begin(), [](const Setting& setting) { return setting.doc; });
    return docs;
  }();
  return kDocs;
}

}  // namespace softnpu
