#include "core/memory/allocator_settings.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/parse.h"

namespace torch_npu {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kMostPending = 512;  // with multi_stream_lazy_reclaim

// Settings that PyTorch does not keep, or does not reset to the default when a later text leaves them out.
struct OwnSettings {
  size_t large_segment = 20 * kMiB;
  size_t max_extra = 20 * kMiB;
  double fraction = 1;
  bool has_gib_pages = false;
  bool reclaims_lazily = false;
  bool fails_at_once = false;
  bool asks_unlocked = false;
  bool expands = false;
};

bool is_switch(std::string_view value) { return value == "True" || value == "False"; }

bool is_between(std::string_view value, int64_t least, int64_t most) {
  int64_t ignored = 0;
  return parse_number(value, least, most, ignored);
}

bool parse_share(std::string_view value, double& out) {
  double share = 0;
  const char* const end = value.data() + value.size();
  const auto [last, error] = std::from_chars(value.data(), end, share);
  if (error != std::errc() || last != end || !(share > 0 && share <= 1)) return false;  // false for NaN too
  out = share;
  return true;
}

bool parse_true_or_false(std::string_view value, bool& out) {
  out = value == "True";
  return is_switch(value);
}

bool parse_megabytes(std::string_view value, int64_t least, int64_t most, size_t& out) {
  int64_t number = 0;
  if (!parse_number(value, least, most, number)) return false;
  out = static_cast<size_t>(number) * kMiB;
  return true;
}

bool is_power_of_2(std::string_view value) {
  int64_t number = 0;
  return parse_number(value, 1, INT64_MAX, number) && std::has_single_bit(static_cast<uint64_t>(number));
}

std::vector<std::string_view> split_outside_brackets(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t depth = 0, begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']' && depth > 0) --depth;
    if (text[i] != separator || depth > 0) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// 8, or [256:1,512:2,>:4].
bool is_divisions(std::string_view value) {
  if (!value.starts_with('[')) return is_power_of_2(value);
  if (!value.ends_with(']') || value.size() < 3) return false;
  const auto pairs = split_outside_brackets(value.substr(1, value.size() - 2), ',');
  return std::all_of(pairs.begin(), pairs.end(), [&](std::string_view pair) {
    const size_t colon = pair.find(':');
    if (colon == std::string_view::npos) return false;
    const std::string_view size = pair.substr(0, colon), count = pair.substr(colon + 1);
    const bool is_last = size == ">" && pair.data() == pairs.back().data();
    return (is_last || is_power_of_2(size)) && (count == "0" || is_power_of_2(count));
  });
}

constexpr std::string_view kSwitch = "True or False";
constexpr std::string_view kMegabytes = "a whole number of MiB";
constexpr int64_t kMost = SIZE_MAX / kMiB;

struct Key {
  std::string_view name;
  std::string_view allowed;
  bool (*parse)(std::string_view value, OwnSettings& settings);
  std::string_view not_yet{};  // the reason why a value other than False has no effect
};

constexpr std::string_view kNoPinnedChoice = "pinned memory always comes from aclrtMallocHost, piece by piece";

// Rows whose function stores nothing only check the value: PyTorch keeps that setting.
constexpr std::array kSettingKeys = {
    Key{"max_split_size_mb", "a whole number of MiB from 20",
        [](std::string_view value, OwnSettings&) { return is_between(value, 20, kMost); }},
    Key{"garbage_collection_threshold", "a number between 0 and 1",
        [](std::string_view value, OwnSettings&) {
          double share = 0;
          return parse_share(value, share) && share < 1;
        }},
    Key{"expandable_segments", kSwitch,
        [](std::string_view value, OwnSettings& s) { return parse_true_or_false(value, s.expands); }},
    Key{"base_addr_aligned_kb", "a whole number from 0 to 16",
        [](std::string_view value, OwnSettings&) { return is_between(value, 0, 16); },
        "memory is aligned to 512 bytes, in expandable segments too"},
    Key{"page_size", "1g",
        [](std::string_view value, OwnSettings& s) {
          s.has_gib_pages = true;
          return value == "1g";
        }},
    Key{"segment_size_mb", "a whole number of MiB from 20 to 512",
        [](std::string_view value, OwnSettings& s) { return parse_megabytes(value, 20, 512, s.large_segment); }},
    Key{"large_segment_size_mb", "a whole number of MiB from 11",
        [](std::string_view value, OwnSettings& s) { return parse_megabytes(value, 11, kMost, s.large_segment); }},
    Key{"roundup_power2_divisions", "a power of 2, or a list of size:divisions such as [256:1,512:2,>:4], all powers of 2",
        [](std::string_view value, OwnSettings&) { return is_divisions(value); }},
    Key{"max_non_split_rounding_mb", "a whole number of MiB from 20",
        [](std::string_view value, OwnSettings& s) { return parse_megabytes(value, 20, kMost, s.max_extra); }},
    Key{"multi_stream_lazy_reclaim", kSwitch,
        [](std::string_view value, OwnSettings& s) { return parse_true_or_false(value, s.reclaims_lazily); }},
    Key{"per_process_memory_fraction", "a number above 0, up to 1",
        [](std::string_view value, OwnSettings& s) { return parse_share(value, s.fraction); }},
    Key{"throw_on_npumalloc_oom", kSwitch,
        [](std::string_view value, OwnSettings& s) { return parse_true_or_false(value, s.fails_at_once); }},
    Key{"release_lock_on_npumalloc", kSwitch,
        [](std::string_view value, OwnSettings& s) { return parse_true_or_false(value, s.asks_unlocked); }},
    Key{"pinned_use_background_threads", kSwitch, [](std::string_view value, OwnSettings&) { return is_switch(value); }},
    Key{"pin_memory_expandable_segments", kSwitch, [](std::string_view value, OwnSettings&) { return is_switch(value); },
        kNoPinnedChoice},
    Key{"pinned_mem_register", kSwitch, [](std::string_view value, OwnSettings&) { return is_switch(value); }, kNoPinnedChoice},
    Key{"pinned_reserve_segment_size_mb", kMegabytes,
        [](std::string_view value, OwnSettings&) { return is_between(value, 0, kMost); }, kNoPinnedChoice},
    Key{"pinned_max_round_threshold_mb", kMegabytes,
        [](std::string_view value, OwnSettings&) { return is_between(value, 0, kMost); }},
    Key{"pinned_max_cached_size_mb", kMegabytes,
        [](std::string_view value, OwnSettings&) { return is_between(value, 0, kMost); }},
};

std::string names_of_keys() {
  std::string names;
  for (const Key& key : kSettingKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  return names;
}

class Parser {
 public:
  // Errors name `source`.
  Parser(std::string_view source, std::string_view text) : source_(source) {
    std::copy_if(text.begin(), text.end(), std::back_inserter(text_), [](unsigned char c) { return std::isspace(c) == 0; });
  }

  OwnSettings parse() {
    if (!text_.empty()) {
      for (const std::string_view item : split_outside_brackets(text_, ',')) parse_item(item);
    }
    if (is_on("expandable_segments")) {
      refuse_together("expandable_segments", "max_split_size_mb");
      refuse_together("expandable_segments", "garbage_collection_threshold");
    }
    if (is_on("pin_memory_expandable_segments") && is_on("pinned_mem_register")) {
      refuse_together("pin_memory_expandable_segments", "pinned_mem_register");
    }
    refuse_together("segment_size_mb", "large_segment_size_mb");
    return settings_;
  }

  // One warning per key and process.
  void warn_of_unimplemented() const {
    static std::mutex mutex;
    static std::vector<std::string_view> warned;
    const std::lock_guard lock(mutex);
    for (const auto& [key, value] : given_) {
      if (key->not_yet.empty() || value == "False") continue;
      if (std::find(warned.begin(), warned.end(), key->name) != warned.end()) continue;
      warned.push_back(key->name);
      TORCH_WARN(source_, ": ", key->name, ":", value, " has no effect: ", key->not_yet, ".");
    }
  }

 private:
  void parse_item(std::string_view item) {
    const size_t colon = item.find(':');
    TORCH_CHECK_VALUE(colon != std::string_view::npos && colon > 0 && colon + 1 < item.size(), source_, " has '", item,
                      "', but must be key:value pairs separated by commas, such as max_split_size_mb:128");
    const std::string_view name = item.substr(0, colon), value = item.substr(colon + 1);
    const auto key = std::find_if(kSettingKeys.begin(), kSettingKeys.end(), [&](const Key& row) { return row.name == name; });
    if (key == kSettingKeys.end()) {
      const bool is_key_of_other_device = Config::getKeys().contains(std::string(name));
      TORCH_CHECK_VALUE(is_key_of_other_device, source_, " has the unknown key '", name, "'; the keys are ", names_of_keys());
      return;
    }
    TORCH_CHECK_VALUE(key->parse(value, settings_), source_, ": ", name, " is '", value, "', but must be ", key->allowed);
    given_.emplace_back(&*key, value);
  }

  const std::string_view* value_of(std::string_view name) const {
    const auto found = std::find_if(given_.begin(), given_.end(), [&](const auto& pair) { return pair.first->name == name; });
    return found == given_.end() ? nullptr : &found->second;
  }

  bool is_on(std::string_view name) const {
    const std::string_view* value = value_of(name);
    return value != nullptr && *value == "True";
  }

  void refuse_together(std::string_view one, std::string_view other) const {
    TORCH_CHECK_VALUE(value_of(one) == nullptr || value_of(other) == nullptr, source_, " sets both ", one, " and ", other,
                      ", which exclude each other; leave one of them out");
  }

  const std::string_view source_;
  std::string text_;
  OwnSettings settings_;
  std::vector<std::pair<const Key*, std::string_view>> given_;
};

struct Current {
  std::mutex mutex;
  OwnSettings settings;

  static Current& get() {
    static Current* const current = new Current;
    return *current;
  }
};

OwnSettings own_settings() {
  Current& current = Current::get();
  const std::lock_guard lock(current.mutex);
  return current.settings;
}

void keep(const OwnSettings& settings) {
  Current& current = Current::get();
  const std::lock_guard lock(current.mutex);
  current.settings = settings;
}

// PyTorch does not reset large_segment_size_mb when a later text leaves it out, and checks other keys against it. So it is reset
// first.
template <typename Settings>
void tell_torch(const std::string& text) {
  if constexpr (requires { Settings::large_segment_size(); }) Settings::instance().parseArgs("large_segment_size_mb:20");
  Settings::instance().parseArgs(text);
}

void apply_settings(std::string_view source, const std::string& text) {
  Parser parser(source, text);
  const OwnSettings settings = parser.parse();
  const std::string previous = Config::last_allocator_settings();
  try {
    tell_torch<Config>(text);
  } catch (const c10::Error& error) {
    tell_torch<Config>(previous);
    TORCH_CHECK_VALUE(false, source, ": '", text, "' is refused by PyTorch: ", error.what_without_backtrace());
  }
  keep(settings);
  parser.warn_of_unimplemented();
}

// Registers the keys before PyTorch reads PYTORCH_ALLOC_CONF, because it refuses unknown keys. A build of PyTorch for another
// device may know some of the keys already and has its own hook, which stays.
const bool settings_registered = [] {
  for (const Key& key : kSettingKeys) Config::getMutableKeys().insert(std::string(key.name));
  auto& hook = Config::getConfigParserHook();
  if (!hook) hook = [](const std::string& text) { keep(Parser("the text of settings", text).parse()); };
  return true;
}();

}  // namespace

void read_allocator_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string &own = options().allocator, &shared = options().shared_allocator;
    TORCH_CHECK_VALUE(own.empty() || shared.empty(),
                      "both PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are set; unset one of them");
    if (!own.empty()) return apply_settings("PYTORCH_NPU_ALLOC_CONF", own);
    if (!shared.empty()) return apply_settings("PYTORCH_ALLOC_CONF", shared);
  });
}

void set_allocator_settings(const std::string& text) {
  read_allocator_environment();
  apply_settings("the text of settings", text);
}

double initial_memory_fraction() { return own_settings().fraction; }

CacheSettings CacheSettings::read() {
  const OwnSettings own = own_settings();
  const std::vector<size_t>& divisions = Config::roundup_power2_divisions();
  return {.large_segment = own.large_segment,
          .max_split = Config::max_split_size(),
          .max_extra = own.max_extra,
          .most_pending = own.reclaims_lazily ? kMostPending : 0,
          .collection_threshold = Config::garbage_collection_threshold(),
          .rounds_to_powers = std::any_of(divisions.begin(), divisions.end(), [](size_t count) { return count > 1; }),
          .has_gib_pages = own.has_gib_pages,
          .fails_at_once = own.fails_at_once,
          .expands = own.expands,
          .asks_unlocked = own.asks_unlocked};
}

}  // namespace torch_npu
