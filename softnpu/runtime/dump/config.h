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

  // Whether the operator with this name, such as "aclnnAdd", is dumped. Names in the list may lack the prefix "aclnn".
  bool wants(const char* name) const;
};

// Reads a JSON file with a "dump" object. Comments, missing commas and missing closing brackets only give a warning, because the
// vendor's own examples have them. Fails with ACL_ERROR_INVALID_FILE, ACL_ERROR_PARSE_FILE or ACL_ERROR_INVALID_DUMP_CONFIG.
Result<DumpConfig> read_dump_config(const std::string& file);

// Converts the "dump" object that was read from `file`.
Result<DumpConfig> parse_dump_config(const Json& dump, const std::string& file);

// Parses the content of a configuration file. With `lenient`, the mistakes above only give a warning.
Result<Json> parse_config(const std::string& content, const std::string& file, bool lenient);

// Returns the content of a file. Fails with ACL_ERROR_INVALID_FILE.
Result<std::string> read_whole(const std::string& file);

}  // namespace softnpu
