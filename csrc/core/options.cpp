#include "core/options.h"

#include <c10/util/Exception.h>

#include <array>
#include <charconv>
#include <cstdlib>

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

// `parse` leaves the default in place and answers false for a bad value.
struct Setting {
  OptionDoc doc;
  bool (*parse)(std::string_view value, Options& options);
};

// In this order: a later row may only add to what an earlier one set.
constexpr std::array kSettings = {
    Setting{{"TORCH_NPU_LIBRARY_PATH", "a folder with libascendcl.so, that file, or softnpu", "installed CANN, else softnpu",
             "the device library to use; softnpu: the one that torch_npu brings along"},
            [](std::string_view value, Options& o) { return parse_text(value, o.library_path); }},
    Setting{{"ASCEND_TOOLKIT_HOME", "a folder", "none", "where CANN is installed, if ASCEND_HOME_PATH does not say so"},
            [](std::string_view value, Options& o) { return parse_text(value, o.cann_home); }},
    Setting{{"ASCEND_HOME_PATH", "a folder", "none", "where CANN is installed"},
            [](std::string_view value, Options& o) { return parse_text(value, o.cann_home); }},
    Setting{{"ASCEND_CUSTOM_OPP_PATH", "folders separated by colons", "none",
             "where operators are looked for that libopapi.so lacks, in op_api/lib/libcust_opapi.so"},
            [](std::string_view value, Options& o) { return parse_text(value, o.custom_op_path); }},
    Setting{
        {"PYTORCH_NPU_ALLOC_CONF", "key:value pairs separated by commas; see memory.md", "none",
         "settings of the caching allocator, such as max_split_size_mb:128; what is wrong is an error at the first allocation"},
        [](std::string_view value, Options& o) { return parse_text(value, o.allocator); }},
    Setting{{"PYTORCH_ALLOC_CONF", "the same", "none", "the same for every accelerator; an error if both are set"},
            [](std::string_view value, Options& o) { return parse_text(value, o.shared_allocator); }},
    Setting{{"OOM_SNAPSHOT_ENABLE", "0, 1 or 2", "0",
             "a snapshot of memory is written when it runs out; 1: with the history of all allocations, 2: without"},
            parse_oom_snapshot},
    Setting{{"OOM_SNAPSHOT_PATH", "a folder", "the current one", "where such snapshots go, as oom_snapshot_PID_TIME.pickle"},
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
    Setting{
        {"TORCH_NPU_DEBUG", "0 or 1", "0",
         "1: the Python line, shapes and dtypes of each launch are remembered, and the error of a failed operator names them; "
         "slower, but asynchronous"},
        [](std::string_view value, Options& o) { return parse_switch(value, o.debug); }},
    Setting{{"TORCH_NPU_STRICT_FALLBACK", "0 or 1", "0", "1: an operator that would run on the CPU instead is an error"},
            [](std::string_view value, Options& o) { return parse_switch(value, o.strict_fallback); }},
    Setting{{"TORCH_NPU_DEVICE_CAPABILITY", "two numbers such as 9.0", "none",
             "what torch.npu.get_device_capability() answers, for programs that choose by it"},
            [](std::string_view value, Options& o) { return parse_version(value, o.device_capability); }},
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
};

Options read_environment() {
  Options options;
  for (const Setting& setting : kSettings) {
    const char* value = std::getenv(setting.doc.name.data());
    if (value == nullptr || *value == '\0' || setting.parse(value, options)) continue;
    TORCH_WARN("the environment variable ", setting.doc.name, " is '", value, "', but must be ", setting.doc.values, "; ",
               setting.doc.standard, " is used.");
  }
  return options;
}

}  // namespace

const Options& options() {
  static const Options* const options = new Options(read_environment());
  return *options;
}

std::span<const OptionDoc> option_docs() {
  static const auto docs = [] {
    std::array<OptionDoc, kSettings.size()> rows;
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = kSettings[i].doc;
    return rows;
  }();
  return docs;
}

}  // namespace torch_npu
