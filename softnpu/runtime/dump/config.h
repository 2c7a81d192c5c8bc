// The settings of an operator dump: the object "dump" of dump.json and acl.json.
//
//   {"dump": {"dump_list": [], "dump_path": "./output", "dump_mode": "all", "dump_op_switch": "on"}}
//
//   Result<DumpConfig> config = read_dump_config("dump.json");
//
// docs/debugging.md describes the members.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/status.h"

namespace softnpu {

struct DumpConfig {
  std::vector<std::string> operators;  // empty: all
  std::string path;                    // absolute
  bool inputs = false;
  bool outputs = true;
  bool is_on = false;  // dump_op_switch

  // Whether the operator with this name, such as "aclnnAdd", is dumped. The list has names with or without "aclnn".
  bool wants(const char* name) const;
};

// Reads a JSON file with a "dump" object. Commas and closing brackets that are missing, and comments, are a warning: the
// documents' own examples have such mistakes. ACL_ERROR_INVALID_FILE, ACL_ERROR_PARSE_FILE or ACL_ERROR_INVALID_DUMP_CONFIG
// otherwise.
Result<DumpConfig> read_dump_config(const std::string& file);

// The same for the object, which was read from `file`.
Result<DumpConfig> parse_dump_config(const Json& dump, const std::string& file);

// Parses the content of a configuration file. With `lenient` the mistakes above are a warning.
Result<Json> parse_config(const std::string& content, const std::string& file, bool lenient);

// ACL_ERROR_INVALID_FILE if it cannot be read.
Result<std::string> read_whole(const std::string& file);

}  // namespace softnpu
