// Helpers for the tests of operator dumps: a folder, a configuration, and a reader of the files.
//
//   begin(R"("dump_mode": "all")");
//   ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
//   const std::vector<OperatorDump> dumps = end();
//   EXPECT_EQ(dumps[0].outputs[0].as<float>(), (Floats{...}));
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include "ops/operands.h"
#include "testing/temp_dir.h"

#if __has_include(<protozero/pbf_reader.hpp>)
#include <protozero/pbf_reader.hpp>
#define SOFTNPU_TESTS_DUMPS 1
#else
#define SOFTNPU_TESTS_DUMPS 0
#endif

namespace softnpu::test {

struct DumpedBlock {
  int32_t dtype = 0;
  int32_t format = 0;
  Sizes sizes;
  uint64_t bytes = 0;
  std::string data;

  template <typename Element>
  std::vector<Element> as() const {
    std::vector<Element> values(data.size() / sizeof(Element));
    std::memcpy(values.data(), data.data(), values.size() * sizeof(Element));
    return values;
  }
};

struct OperatorDump {
  std::vector<std::string> folders;  // below dump_path: time, device, model, index
  std::vector<std::string> name;     // the parts of the file's name: type, name, task, stream, time
  std::string version;
  std::string op_name;
  uint64_t time = 0;
  std::vector<DumpedBlock> inputs;
  std::vector<DumpedBlock> outputs;
  std::string problem;  // the reason if the file is not complete
};

inline std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

#if SOFTNPU_TESTS_DUMPS

inline DumpedBlock read_block(protozero::pbf_reader message, bool is_output) {
  DumpedBlock block;
  const protozero::pbf_tag_type size_field = is_output ? 6 : 5;
  while (message.next()) {
    if (message.tag() == 1) {
      block.dtype = message.get_int32();
    } else if (message.tag() == 2) {
      block.format = message.get_int32();
    } else if (message.tag() == 3) {
      protozero::pbf_reader shape = message.get_message();
      while (shape.next(1)) {
        for (const uint64_t size : shape.get_packed_uint64()) block.sizes.push_back(int64_t(size));
      }
    } else if (message.tag() == size_field) {
      block.bytes = message.get_uint64();
    } else {
      message.skip();
    }
  }
  return block;
}

inline OperatorDump read_dump(const std::filesystem::path& root, const std::filesystem::path& file) {
  OperatorDump dump;
  const std::filesystem::path below = file.lexically_relative(root);
  for (const auto& folder : below.parent_path()) dump.folders.push_back(folder.string());
  dump.name = split_text(file.filename().string(), '.');
  const std::string content = read_file(file);
  uint64_t length = 0;
  if (content.size() < sizeof length) return dump.problem = "too short", dump;
  std::memcpy(&length, content.data(), sizeof length);
  if (length > content.size() - sizeof length) return dump.problem = "header cut off", dump;
  protozero::pbf_reader header(content.data() + sizeof length, length);
  while (header.next()) {
    if (header.tag() == 1) {
      dump.version = header.get_string();
    } else if (header.tag() == 2) {
      dump.time = header.get_uint64();
    } else if (header.tag() == 3) {
      dump.outputs.push_back(read_block(header.get_message(), true));
    } else if (header.tag() == 4) {
      dump.inputs.push_back(read_block(header.get_message(), false));
    } else if (header.tag() == 6) {
      dump.op_name = header.get_string();
    } else {
      header.skip();
    }
  }
  size_t at = sizeof length + length;
  for (auto* blocks : {&dump.inputs, &dump.outputs}) {
    for (DumpedBlock& block : *blocks) {
      if (block.bytes > content.size() - at) return dump.problem = "data cut off", dump;
      block.data = content.substr(at, block.bytes);
      at += block.bytes;
    }
  }
  if (at != content.size()) dump.problem = "bytes after the data";
  return dump;
}

#endif

// The complete files below a folder, in the order of their times.
inline std::vector<OperatorDump> read_dumps(const std::filesystem::path& root) {
  std::vector<OperatorDump> dumps;
#if SOFTNPU_TESTS_DUMPS
  if (!std::filesystem::is_directory(root)) return dumps;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with('.'))
      dumps.push_back(read_dump(root, entry.path()));
  }
  std::ranges::sort(dumps, {}, &OperatorDump::time);
  for (const OperatorDump& dump : dumps) EXPECT_EQ(dump.problem, "") << dump.op_name;
#else
  (void)root;
#endif
  return dumps;
}

class DumpFixture : public OpsFixture {
 protected:
  ~DumpFixture() override { aclmdlFinalizeDump(), recent_error(); }

  std::filesystem::path output() const { return folder.path() / "output"; }
  std::string config(const std::string& members) const {
    return R"({"dump": {"dump_path": ")" + output().string() + R"(", "dump_op_switch": "on", "dump_list": [])" +
           (members.empty() ? "" : ", " + members) + "}}";
  }
  void begin(const std::string& members = R"("dump_mode": "all")") {
    ASSERT_ACL(aclmdlInitDump());
    ASSERT_ACL(aclmdlSetDump(write_file(folder.path() / "dump.json", config(members)).c_str()));
  }
  std::vector<OperatorDump> end() {
    EXPECT_ACL(aclrtSynchronizeDevice());
    EXPECT_ACL(aclmdlFinalizeDump());
    return read_dumps(output());
  }

  TempDir folder;
  Stream stream = make_stream();
  Operand a{{4}, {1, 2, 3, 4}};
  Operand b{{4}, {10, 20, 30, 40}};
  Operand out{{4}};
  ScalarObject one = scalar(1);
};

}  // namespace softnpu::test
