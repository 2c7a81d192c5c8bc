// Dump files of operators, version 2: 8 bytes with the length of the header (little-endian), the header (the protobuf message
// toolkit.dumpdata.DumpData without data), then the elements of all inputs and all outputs.
//
//   const std::string begin = encode_begin(header);      // length and header
//   DumpFile file;
//   SOFTNPU_RETURN_IF_ERROR(file.open(folder, "Add.aclnnAdd.3.0.1700000000000000"));
//   SOFTNPU_RETURN_IF_ERROR(file.write(begin.data(), begin.size()));
//   SOFTNPU_RETURN_IF_ERROR(file.commit());
//
// A file gets its final name in commit(), when it is complete. Until then its name begins with a dot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace softnpu {

struct DumpedTensor {
  bool is_output = false;
  int32_t dtype = 0;   // an aclDataType
  int32_t format = 0;  // an aclFormat
  std::vector<uint64_t> sizes;
  uint64_t bytes = 0;
  uint64_t address = 0;
};

struct DumpHeader {
  std::string op_name;
  uint64_t microseconds = 0;  // since 1970
  std::vector<DumpedTensor> tensors;
};

// Fails if this library was built without the protobuf library protozero. Then it writes no dump files.
Status dump_files_are_possible();

std::string encode_begin(const DumpHeader& header);

// `type.name.task.stream.microseconds`. Dots, slashes, backslashes and spaces of the names become underscores.
std::string dump_file_name(const std::string& type, const std::string& name, uint64_t task, int32_t stream,
                           uint64_t microseconds);

// The text of a failure has the path and the reason of the operating system.
class DumpFile {
 public:
  DumpFile() = default;
  // Removes a file that was not committed.
  ~DumpFile();
  DumpFile(const DumpFile&) = delete;
  DumpFile& operator=(const DumpFile&) = delete;

  Status open(const std::string& folder, const std::string& name);
  Status write(const void* data, size_t bytes);
  // Gives the file its name. Fails if a file of that name exists.
  Status commit();

 private:
  Status failure(const char* what) const;

  std::string folder_;
  std::string name_;
  int descriptor_ = -1;
  bool exists_ = false;
};

// Holds elements that do not fit into memory, until they are copied to a dump file. It is a file without a name in the folder of
// the dump.
class SpoolFile {
 public:
  SpoolFile() = default;
  ~SpoolFile();
  SpoolFile(SpoolFile&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  SpoolFile& operator=(SpoolFile&&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  Status open(const std::string& folder);
  Status append(const void* data, size_t bytes);
  Status copy_to(DumpFile& file) const;

 private:
  int descriptor_ = -1;
};

}  // namespace softnpu
