#include "base/options.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/parse.h"

namespace torch_npu {
namespace {

bool parse_switch(std::string_view value, bool& out) {
  if (value != "0" && value != "1") return false;
  out = value == "1";
  return true;
}

bool parse_text(std::string_view value, std::string& out) {
  out = value;
  return true;
}

// Sets `out` to `factor` times the number, or to -1 for a negative number.
bool parse_timeout(std::string_view value, int64_t least, int64_t factor, int64_t& out) {
  int64_t number = 0;
  if (!parse_number(value, least, INT32_MAX, number)) return false;
  out = number < 0 ? -1 : number * factor;
  return true;
}

bool parse_queue_level(std::string_view value, Options& options) {
  if (value != "0" && value != "1" && value != "2") return false;
  if (value == "0") options.launch_blocking = true;
  return true;
}

bool parse_oom_snapshot(std::string_view value, Options& options) {
  if (value != "0" && value != "1" && value != "2") return false;
  options.oom_snapshot = value != "0";
  options.oom_history = value == "1";
  return true;
}

bool parse_version(std::string_view value, std::optional<std::pair<int, int>>& out) {
  const char* const end = value.data() + value.size();
  unsigned major = 0, minor = 0;
  const auto [dot, bad_major] = std::from_chars(value.data(), end, major);
  if (bad_major != std::errc() || dot == end || *dot != '.') return false;
  const auto [rest, bad_minor] = std::from_chars(dot + 1, end, minor);
  if (bad_minor != std::errc() || rest != end) return false;
  out = {static_cast<int>(major), static_cast<int>(minor)};
  return true;
}

bool parse_streams(std::string_view value, Options& options) {
  if (value != "8" && value != "32") return false;
  options.streams_per_device = value == "8" ? 8 : 32;
  return true;
}

bool parse_no_warnings(std::string_view value, Options& options) {
  bool off = false;
  if (!parse_switch(value, off)) return false;
  options.warnings &= !off;
  return true;
}

bool parse_strict(std::string_view value, Options& options) {
  bool strict = false;
  if (!parse_switch(value, strict)) return false;
  options.strict_fallback |= strict;
  return true;
}

bool parse_device_log_level(std::string_view value, Options& options) {
  int64_t level = 0;
  if (!parse_number(value, 0, 4, level)) return false;
  options.logs_operators = level <= 1;
  return true;
}

// `parse` returns false for a bad value and then leaves the default in place.
struct Setting {
  OptionDoc doc;
  bool (*parse)(std::string_view value, Options& options);
};

// Read in this order: a later row may change a value that an earlier row set.
constexpr std::array kSettings = {
    Setting{{"TORCH_NPU_LIBRARY_PATH", "a folder with libascendcl.so, that file, or softnpu", "installed CANN, else softnpu",
             "the device library to use; softnpu: the one that torch_npu brings along"},
            [](std::string_view value, Options& o) { return parse_text(value, o.library_path); }},
    Setting{{"ASCEND_TOOLKIT_HOME", "a folder", "none", "where CANN is installed, if ASCEND_HOME_PATH does not say so"},
            [](std::string_view value, Options& o) { return parse_text(value, o.cann_home); }},
    Setting{{"ASCEND_HOME_PATH", "a folder", "none", "where CANN is installed"},
            [](std::string_view value, Options& o) { return parse_text(value, o.cann_home); }},
    Setting{{"ASCEND_CUSTOM_OPP_PATH", "folders separated by colons", "none",
             "folders whose op_api/lib/libcust_opapi.so has operators that libopapi.so lacks"},
            [](std::string_view value, Options& o) { return parse_text(value, o.custom_op_path); }},
    Setting{{"PYTORCH_NPU_ALLOC_CONF", "key:value pairs separated by commas; see memory.md", "none",
             "settings of the caching allocator, such as max_split_size_mb:128; a mistake is an error at the first allocation"},
            [](std::string_view value, Options& o) { return parse_text(value, o.allocator); }},
    Setting{{"PYTORCH_ALLOC_CONF", "the same", "none", "the same for every accelerator; an error if both are set"},
            [](std::string_view value, Options& o) { return parse_text(value, o.shared_allocator); }},
    Setting{{"ACL_DUMP_DATA", "0 or 1", "0",
             "1: operators are dumped from the first use of the device; acl.json in the current folder is the configuration; see "
             "debugging.md"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.dump_operators); }},
    Setting{
        {"DUMP_GE_GRAPH", "1, 2 or 3", "none",
         "each captured graph is written to a file in the folder pid_PID_deviceid_DEVICE when its capture ends; 1 and 2: with "
         "the tensors of its operators, 3: without; see graphs.md"},
        [](std::string_view value, Options& o) { return parse_number(value, 1, 3, o.graph_files); }},
    // Python reads it when torch_npu is imported.
    Setting{{"PROF_CONFIG_PATH", "a folder", "none", "profiler_config.json in it starts torch_npu.profiler in a running program"},
            [](std::string_view, Options&) { return true; }},
    Setting{{"OOM_SNAPSHOT_ENABLE", "0, 1 or 2", "0",
             "a snapshot of memory is written when it runs out; 1: with the history of all allocations, 2: without"},
            parse_oom_snapshot},
    Setting{{"OOM_SNAPSHOT_PATH", "a folder", "the current one",
             "the folder of these snapshots, which are named oom_snapshot_PID_TIME.pickle"},
            [](std::string_view value, Options& o) { return parse_text(value, o.oom_snapshot_dir); }},
    Setting{{"PYTORCH_NO_NPU_MEMORY_CACHING", "0 or 1", "0, or 1 with SOFTNPU_MEMORY_CHECK",
             "1: every tensor is an allocation of the device, given back as soon as the streams that use it are done; slow"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.no_caching); }},
    Setting{{"ASCEND_LAUNCH_BLOCKING", "0 or 1", "0",
             "1: every operator is waited for, so that its failure is raised by the line that called it; slow"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.launch_blocking); }},
    Setting{
        {"TASK_QUEUE_ENABLE", "0, 1 or 2", "1", "0: the same as ASCEND_LAUNCH_BLOCKING=1; 1 and 2: operators run asynchronously"},
        parse_queue_level},
    Setting{{"INF_NAN_MODE_ENABLE", "0 or 1", "1",
             "0 with INF_NAN_MODE_FORCE_DISABLE=1: infinity and NaN become the largest number and 0, and an overflow sets the "
             "device's flag; 0 alone: an error at the first use of a chip that has infinity and NaN, no effect on other chips"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.inf_nan); }},
    Setting{{"INF_NAN_MODE_FORCE_DISABLE", "0 or 1", "0", "1: INF_NAN_MODE_ENABLE=0 is allowed"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.may_saturate); }},
    Setting{{"ACL_DEVICE_SYNC_TIMEOUT", "seconds, a whole number of at least 1", "no limit",
             "a wait for a device that takes longer is an error, seen within 50 milliseconds; the work goes on"},
            [](std::string_view value, Options& o) { return parse_timeout(value, 1, 1000, o.device_timeout); }},
    Setting{{"ACL_STREAM_TIMEOUT", "milliseconds, a whole number; -1 for no limit", "-1",
             "the same for a wait for a stream or an event"},
            [](std::string_view value, Options& o) { return parse_timeout(value, -1, 1, o.stream_timeout); }},
    Setting{{"STREAMS_PER_DEVICE", "8 or 32", "32", "streams that torch.npu.Stream hands out in turn, of each priority"},
            parse_streams},
    Setting{{"RESUME_MODE_ENABLE", "0 or 1", "0", "1: a failure that a wait reports is a warning instead of an error"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.resume_mode); }},
    Setting{{"CPU_AFFINITY_CONF", "0, 1 or 2, and after commas npuX:a-b, force:0 or 1, npu_affine:0 or 1", "0",
             "1 and 2: a thread that uses device X runs on its cores a to b; without a range, on its share of the cores"},
            [](std::string_view value, Options& o) { return parse_affinity(value, o.affinity); }},
    Setting{{"TORCH_ACL_INIT_CONFIG_PATH", "a file", "none", "the JSON file that aclInit is given"},
            [](std::string_view value, Options& o) { return parse_text(value, o.init_config); }},
    Setting{{"TORCH_NPU_DEVICE_CAPABILITY", "two numbers such as 8.0", "none", "the value of torch.npu.get_device_capability()"},
            [](std::string_view value, Options& o) { return parse_version(value, o.device_capability); }},
    Setting{{"TORCH_TRANSFER_TO_NPU", "0 or 1", "0", "1: torch_npu.contrib.transfer_to_npu is imported with torch_npu"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.transfer_to_npu); }},
    Setting{{"TORCH_NPU_COMPACT_ERROR_OUTPUT", "0 or 1", "0", "1: errors are one line, without advice; all of it is in the log"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.compact_errors); }},
    Setting{{"TORCH_NPU_WARNING_DISABLE", "0 or 1", "0",
             "1: torch_npu does not warn, not even of operators that run on the CPU or of bad values in this table"},
            parse_no_warnings},
    Setting{{"TORCH_NPU_DISABLED_WARNING", "0 or 1", "0", "the old name of TORCH_NPU_WARNING_DISABLE"}, parse_no_warnings},
    Setting{
        {"TORCH_NPU_LOGS",
         "memory, dispatch, dispatch_time, silent, recovery, op_plugin, shmem, env, acl, aclgraph or all, separated by commas; "
         "with "
         "+ from debug on, without a sign from info on, with - errors only",
         "none",
         "lines on stderr: memory that is taken from the device (memory), operators that run on the CPU, and with + every launch "
         "(dispatch), variables that are set (env), the library in use, devices and failed calls (acl); the other parts say "
         "nothing"},
        [](std::string_view value, Options& o) { return parse_log_levels(value, o.logs); }},
    Setting{{"TORCH_NPU_LOGS_FILTER", "words with + or -, separated by commas", "none",
             "drops lines that contain a word with -, and lines that contain none of the words with +"},
            [](std::string_view value, Options& o) { return is_log_filter(value) && parse_text(value, o.logs_filter); }},
    Setting{{"ASCEND_GLOBAL_LOG_LEVEL", "0 (debug), 1 (info), 2 (warning), 3 (error) or 4 (none)", "3",
             "0 and 1: the device library's log gets a line for each operator that is launched, with its"
             " name, shapes, dtypes, stream and Python line; slower"},
            parse_device_log_level},
    Setting{
        {"TORCH_NPU_DEBUG", "0 or 1", "0",
         "1: the Python line, shapes and dtypes of each launch are remembered, and the error of a failed operator names them; "
         "slower, but asynchronous"},
        [](std::string_view value, Options& o) { return parse_switch(value, o.debug); }},
    Setting{{"TORCH_NPU_STRICT_FALLBACK", "0 or 1", "0", "1: an operator that would run on the CPU instead is an error"},
            parse_strict},
    Setting{{"TORCH_NPU_FALLBACK_CPU_DISABLE", "0 or 1", "0", "another name of TORCH_NPU_STRICT_FALLBACK"}, parse_strict},
    Setting{{"TORCH_NPU_FORCE_FALLBACK", "a regular expression on names of operators; see debugging.md", "none",
             "operators that run on the CPU although npu has them"},
            [](std::string_view value, Options& o) { return parse_text(value, o.force_fallback); }},
    Setting{{"TORCH_NPU_COMPARE", "a regular expression on names of operators; see debugging.md", "none",
             "operators whose results are compared with the CPU's; a difference is reported with a script that repeats it"},
            [](std::string_view value, Options& o) { return parse_text(value, o.compare); }},
    Setting{{"TORCH_NPU_COMPARE_RAISE", "0 or 1", "0", "1: the first difference that TORCH_NPU_COMPARE finds is an error"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.compare_raise); }},
    Setting{{"TORCH_NPU_COMPARE_DIR", "a folder", "npu_differences", "where those scripts are written"},
            [](std::string_view value, Options& o) { return parse_text(value, o.compare_dir); }},
    Setting{{"TORCH_NPU_PRINT_OPS", "a regular expression on names of operators; see debugging.md", "none",
             "operators whose calls are printed on stderr, with arguments, results and Python line"},
            [](std::string_view value, Options& o) { return parse_text(value, o.print_ops); }},
    Setting{{"TORCH_HCCL_BLOCKING_WAIT", "0 or 1", "0",
             "1: wait() of a collective waits until it is done; otherwise only the current stream waits"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.blocking_wait); }},
    Setting{{"HCCL_BLOCKING_WAIT", "0 or 1", "0", "another name of TORCH_HCCL_BLOCKING_WAIT"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.blocking_wait); }},
    Setting{
        {"TORCH_HCCL_ASYNC_ERROR_HANDLING", "0, 1, 2 or 3", "1",
         "the reaction to a collective that exceeds its timeout; 0: none; 1 and 2: the group is aborted, waiting streams fail, "
         "and the program gets the error; 3: the error is printed, and the group is not aborted; 1 and 3 also end the process if "
         "no call has raised the error after 30 seconds and the program has not left the group"},
        [](std::string_view value, Options& o) { return parse_number(value, 0, 3, o.error_handling); }},
    Setting{{"HCCL_ASYNC_ERROR_HANDLING", "0, 1, 2 or 3", "1", "another name of TORCH_HCCL_ASYNC_ERROR_HANDLING"},
            [](std::string_view value, Options& o) { return parse_number(value, 0, 3, o.error_handling); }},
    Setting{{"TORCH_HCCL_DESYNC_DEBUG", "0 or 1", "0",
             "1: the error of a collective that exceeds its timeout names the last collective of each rank"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.desync_debug); }},
    Setting{{"HCCL_DESYNC_DEBUG", "0 or 1", "0", "another name of TORCH_HCCL_DESYNC_DEBUG"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.desync_debug); }},
    Setting{{"TORCH_HCCL_HIGH_PRIORITY", "0 or 1", "0", "1: process groups of hccl use streams of high priority"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.high_priority_groups); }},
    Setting{{"TORCH_HCCL_TRACE_BUFFER_SIZE", "a whole number", "0", "how many of the last collectives the flight recorder keeps"},
            [](std::string_view value, Options& o) { return parse_number(value, 0, 1 << 24, o.trace_size); }},
    Setting{{"TORCH_HCCL_DUMP_ON_TIMEOUT", "0 or 1", "0",
             "1: the flight recorder is written to a file when a collective exceeds its timeout"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.dump_on_timeout); }},
    Setting{{"TORCH_HCCL_DEBUG_INFO_TEMP_FILE", "a file, without the rank", "/tmp/hccl_trace_rank_",
             "that file; the rank is appended"},
            [](std::string_view value, Options& o) { return parse_text(value, o.trace_file); }},
    Setting{{"TORCH_NPUGRAPH_GC", "0 or 1", "0", "1: `torch.npu.graph` collects Python's garbage before a capture"},
            [](std::string_view value, Options&) { return value == "0" || value == "1"; }},
};

// Checks of variables without effect.
bool is_switch(std::string_view value, Options&) { return value == "0" || value == "1"; }
bool is_anything(std::string_view, Options&) { return true; }
bool is_algorithm(std::string_view value, Options&) { return value.find("level") != std::string_view::npos; }
template <int kLeast, int kMost>
bool is_number(std::string_view value, Options&) {
  int64_t number = 0;
  return parse_number(value, kLeast, kMost, number);
}
bool is_pair(std::string_view value, Options&) {
  const auto parts = split(value, ',');
  int64_t number = 0;
  return parts.size() == 2 &&
         std::all_of(parts.begin(), parts.end(), [&](std::string_view part) { return parse_number(part, 0, INT64_MAX, number); });
}
template <const auto& kWords>
bool is_one_of(std::string_view value, Options&) {
  return std::find(std::begin(kWords), std::end(kWords), value) != std::end(kWords);
}

constexpr std::string_view kTruths[] = {"True", "False", "true", "false", "1", "0"};
constexpr std::string_view kCacheModes[] = {"enable", "disable", "force"};
constexpr std::string_view kLegacyKeys[] = {"randomness"};
constexpr std::string_view kDeterminism[] = {"true", "false", "strict", "1", "0"};

// Variables that are checked and documented but have no effect.
constexpr std::array kAccepted = {
    Setting{{"COMBINED_ENABLE", "0 or 1", "0", "a view of any strides is copied by one operator of the device"}, is_switch},
    Setting{{"TRI_COMBINED_ENABLE", "0 or 1", "0", "as COMBINED_ENABLE"}, is_switch},
    Setting{{"RI_COMBINED_ENABLE", "0 or 1", "0", "another spelling of TRI_COMBINED_ENABLE"}, is_switch},
    Setting{{"PTCOPY_ENABLE", "0 or 1", "1", "as COMBINED_ENABLE"}, is_switch},
    Setting{{"DYNAMIC_COMPILE_ENABLE", "0 or 1", "0", "nothing is compiled for certain shapes"}, is_switch},
    Setting{{"DYNAMIC_OP", "names of operators separated by #", "none", "operators have one implementation each"}, is_anything},
    Setting{{"ACL_OP_COMPILER_CACHE_MODE", "enable, disable or force", "enable", "nothing is compiled when a program runs"},
            is_one_of<kCacheModes>},
    Setting{{"ACL_OP_COMPILER_CACHE_DIR", "a folder", "none", "nothing is compiled when a program runs"}, is_anything},
    Setting{{"ACL_OP_INIT_MODE", "0, 1 or 2", "2", "operators are called by aclnn, never by aclop"}, is_number<0, 2>},
    Setting{{"ACLNN_CACHE_LIMIT", "a whole number", "none", "executors are not cached by arguments"}, is_number<0, INT32_MAX>},
    Setting{{"HOST_CACHE_CAPACITY", "a whole number", "none", "executors are not cached by arguments"}, is_number<0, INT32_MAX>},
    Setting{{"PER_STREAM_QUEUE", "0 or 1", "0", "every stream always has a queue and a thread of its own"}, is_switch},
    Setting{{"TORCH_NPU_USE_COMPATIBLE_IMPL", "0 or 1", "0", "results are always PyTorch's own"}, is_switch},
    Setting{{"TORCH_NPU_LEGACY_IMPL_LIST", "randomness", "none", "there are no older implementations"}, is_one_of<kLegacyKeys>},
    Setting{{"TORCH_NPU_LAZY_FUSION", "True or False", "False", "small operators are not fused"}, is_one_of<kTruths>},
    Setting{{"GE_INIT_DISABLE", "0 or 1", "0", "there is no graph engine to initialise"}, is_switch},
    Setting{{"DUMP_GRAPH_LEVEL", "1 to 4", "none", "a captured graph has one stage, which DUMP_GE_GRAPH writes at each level"},
            is_number<1, 4>},
    Setting{{"bmmv2_enable", "0 or 1", "0", "there is one implementation of batched products"}, is_switch},
    Setting{
        {"MULTI_STREAM_MEMORY_REUSE", "0, 1, 2 or 3", "1", "memory that other streams used is always reused after they are done"},
        is_number<0, 3>},
    Setting{{"NPU_SHMEM_SYMMETRIC_SIZE", "bytes, or a number with a suffix", "none", "there is no symmetric memory"},
            is_anything},
    Setting{{"TORCH_NPU_SANITIZER", "0 or 1", "0", "SOFTNPU_RACE_CHECK finds streams that use memory without order"}, is_switch},
    Setting{{"ASCEND_OPP_DEBUG_PATH", "a folder", "none", "SOFTNPU_MEMORY_CHECK checks kernels"}, is_anything},
    Setting{{"ASCEND_OPP_PATH", "a folder", "none", "operators come with the device library"}, is_anything},
    Setting{{"OPTION_EXEC_EXTERN_PLUGIN_PATH", "a file", "none", "operators come with the device library"}, is_anything},
    Setting{{"ASCEND_AICPU_PATH", "a folder", "none", "operators come with the device library"}, is_anything},
    Setting{{"NPU_ASD_ENABLE", "0, 1, 2 or 3", "0", "gradients are not watched for the faults of a chip"}, is_number<0, 3>},
    Setting{{"NPU_ASD_UPPER_THRESH", "two whole numbers separated by a comma", "1000000,10000", "as NPU_ASD_ENABLE"}, is_pair},
    Setting{{"NPU_ASD_SIGMA_THRESH", "two whole numbers separated by a comma", "100000,5000", "as NPU_ASD_ENABLE"}, is_pair},
    Setting{{"NPU_ASD_CONFIG", "settings separated by commas", "none", "as NPU_ASD_ENABLE"}, is_anything},
    Setting{{"KINETO_USE_DAEMON", "0 or 1", "0", "PROF_CONFIG_PATH starts profiles in a running program"}, is_switch},
    Setting{{"MSMONITOR_USE_DAEMON", "0 or 1", "0", "PROF_CONFIG_PATH starts profiles in a running program"}, is_switch},
    Setting{{"HCCL_EVENT_TIMEOUT", "seconds, a whole number", "1868", "an event has no limit of its own; HCCL_EXEC_TIMEOUT has"},
            is_number<0, INT32_MAX>},
    Setting{{"HCCL_ALGO", "settings separated by semicolons, such as level0:NA;level1:ring", "none",
             "the algorithm follows from the size and from the hosts of the ranks"},
            is_algorithm},
    Setting{{"HCCL_DETERMINISTIC", "true, false, strict, 1 or 0", "false", "a reduction always gives the same bits"},
            is_one_of<kDeterminism>},
    Setting{{"HCCL_RDMA_TC", "a whole number from 0 to 255", "132", "hosts are connected by TCP"}, is_number<0, 255>},
    Setting{{"HCCL_RDMA_SL", "a whole number from 0 to 7", "4", "hosts are connected by TCP"}, is_number<0, 7>},
};

struct Loaded {
  Options options;
  std::vector<std::string> warnings;
  std::vector<std::string> set;  // "NAME=value" of each variable that is set, for the log
};

Loaded read_environment() {
  Loaded loaded;
  const auto read = [&](const Setting& setting) {
    const char* value = std::getenv(setting.doc.name.data());
    if (value == nullptr || *value == '\0') return;
    loaded.set.push_back(c10::str(setting.doc.name, "=", value));
    if (setting.parse(value, loaded.options)) return;
    loaded.warnings.push_back(c10::str("the environment variable ", setting.doc.name, " is '", value, "', but must be ",
                                       setting.doc.values, "; ", setting.doc.standard, " is used."));
  };
  for (const Setting& setting : kSettings) read(setting);
  for (const Setting& setting : kAccepted) read(setting);
  return loaded;
}

const Options* load() {
  Loaded loaded = read_environment();
  if (loaded.options.warnings) {
    for (const std::string& warning : loaded.warnings) TORCH_WARN(warning);
  }
  if (loaded.options.logs[static_cast<size_t>(LogPart::kEnv)] <= LogLevel::kInfo) {
    for (const std::string& line : loaded.set) log(LogPart::kEnv, LogLevel::kInfo, line, loaded.options.logs_filter);
  }
  return new Options(std::move(loaded.options));
}

}  // namespace

const Options& options() {
  static const Options* const options = load();
  return *options;
}

std::span<const OptionDoc> option_docs() {
  static const auto docs = [] {
    std::array<OptionDoc, kSettings.size() + kAccepted.size()> rows;
    const auto doc_of = [](const Setting& setting) { return setting.doc; };
    std::transform(kAccepted.begin(), kAccepted.end(), std::transform(kSettings.begin(), kSettings.end(), rows.begin(), doc_of),
                   doc_of);
    return rows;
  }();
  return docs;
}

}  // namespace torch_npu
