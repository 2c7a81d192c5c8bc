#include "runtime/dump/config.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "runtime/base/log.h"

namespace softnpu {
namespace {

constexpr std::string_view kFunctionPrefix = "aclnn";

std::string_view bare_name(std::string_view name) {
  return name.starts_with(kFunctionPrefix) ? name.substr(kFunctionPrefix.size()) : name;
}

Status wrong_member(const std::string& file, std::string_view member, std::string_view allowed) {
  return {ACL_ERROR_INVALID_DUMP_CONFIG, text("'", file, "': '", member, "' must be ", allowed)};
}

// An item of dump_list: the name of an operator, or {"model_name": ..., "layer": [names of operators]}.
bool read_item(const Json& item, std::vector<std::string>& names) {
  if (const std::string* name = item.string()) {
    names.push_back(*name);
    return !name->empty();
  }
  const Json* layer = item.find("layer");
  if (layer == nullptr || layer->array() == nullptr) return false;
  return std::ranges::all_of(*layer->array(),
                             [&](const Json& each) { return each.string() != nullptr && read_item(each, names); });
}

Status read_list(const Json& list, const std::string& file, DumpConfig& config) {
  constexpr std::string_view kAllowed =
      "a list of names of operators such as \"aclnnAdd\"; an empty list means every operator. An object with \"layer\" stands "
      "for the names in it. There are no offline models, so \"model_name\" alone selects nothing";
  if (list.array() == nullptr) return wrong_member(file, "dump_list", kAllowed);
  for (const Json& item : *list.array()) {
    if (!read_item(item, config.operators)) return wrong_member(file, "dump_list", kAllowed);
  }
  return {};
}

// Reads the members whose values are one of a few words.
Status read_words(const Json::Object& members, const std::string& file, DumpConfig& config) {
  if (const auto mode = members.find("dump_mode"); mode != members.end()) {
    const std::string* value = mode->second.string();
    if (value == nullptr || (*value != "input" && *value != "output" && *value != "all"))
      return wrong_member(file, "dump_mode", "\"input\", \"output\" or \"all\"");
    config.inputs = *value != "output";
    config.outputs = *value != "input";
  }
  if (const auto state = members.find("dump_op_switch"); state != members.end()) {
    const std::string* value = state->second.string();
    if (value == nullptr || (*value != "on" && *value != "off")) return wrong_member(file, "dump_op_switch", "\"on\" or \"off\"");
    config.is_on = *value == "on";
  }
  if (const auto data = members.find("dump_data"); data != members.end()) {
    const std::string* value = data->second.string();
    if (value == nullptr || *value != "tensor")
      return wrong_member(file, "dump_data", "\"tensor\", because statistics are not offered");
  }
  return {};
}

void warn_of_unknown(const Json::Object& members, const std::string& file) {
  constexpr std::array kKnown = {"dump_list", "dump_path", "dump_mode", "dump_op_switch", "dump_data"};
  std::string names;
  for (const auto& [name, value] : members) {
    if (std::ranges::find(kKnown, name, [](const char* each) { return std::string_view(each); }) == kKnown.end())
      names += text(names.empty() ? "'" : ", '", name, "'");
  }
  if (!names.empty()) warn(text("'", file, "': ", names, " of the dump has no effect on this device"));
}

}  // namespace

bool DumpConfig::wants(const char* name) const {
  if (operators.empty()) return true;
  return std::ranges::any_of(operators, [&](const std::string& each) { return bare_name(each) == bare_name(name); });
}

Result<std::string> read_whole(const std::string& file) {
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file, ignored))
    return Status(ACL_ERROR_INVALID_FILE, text("the configuration file '", file, "' cannot be read"));
  return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

Result<Json> parse_config(const std::string& content, const std::string& file, bool lenient) {
  Result<Json> strict = Json::parse(content);
  if (strict.ok()) return strict;
  const Status failure = strict.take_status();
  if (lenient) {
    std::vector<std::string> mistakes;
    Result<Json> read = Json::parse_leniently(content, mistakes);
    if (read.ok()) {
      std::string list;
      for (const std::string& mistake : mistakes) list += text(list.empty() ? "" : "; ", mistake);
      warn(text("the configuration file '", file, "' is not valid JSON; it was read with these mistakes corrected: ", list));
      return read;
    }
  }
  return Status(ACL_ERROR_PARSE_FILE, text("the configuration file '", file, "' is not valid JSON: ", failure.message()));
}

Result<DumpConfig> parse_dump_config(const Json& dump, const std::string& file) {
  const Json::Object* members = dump.object();
  if (members == nullptr) return wrong_member(file, "dump", "an object");
  DumpConfig config;
  const auto path = members->find("dump_path");
  const std::string* folder = path == members->end() ? nullptr : path->second.string();
  if (folder == nullptr || folder->empty())
    return wrong_member(file, "dump_path", "a folder, absolute or relative to the current one");
  std::error_code error;
  config.path = std::filesystem::absolute(*folder, error).lexically_normal().string();
  if (error) return wrong_member(file, "dump_path", "an absolute folder, because the current folder does not exist");
  if (const auto list = members->find("dump_list"); list != members->end())
    SOFTNPU_RETURN_IF_ERROR(read_list(list->second, file, config));
  SOFTNPU_RETURN_IF_ERROR(read_words(*members, file, config));
  warn_of_unknown(*members, file);
  return config;
}

Result<DumpConfig> read_dump_config(const std::string& file) {
  Result<std::string> content = read_whole(file);
  if (!content.ok()) return content.take_status();
  Result<Json> parsed = parse_config(content.value(), file, /*lenient=*/true);
  if (!parsed.ok()) return parsed.take_status();
  const Json* dump = parsed.value().find("dump");
  if (dump == nullptr) {
    return Status(
        ACL_ERROR_INVALID_DUMP_CONFIG,
        text("'", file, "' has no object \"dump\"; write {\"dump\": {\"dump_path\": \"./output\", \"dump_op_switch\": \"on\"}}"));
  }
  return parse_dump_config(*dump, file);
}

}  // namespace softnpu
