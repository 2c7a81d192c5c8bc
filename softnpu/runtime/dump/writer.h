// Writes dump files on a thread of its own.
//
//   DumpWriter::reserve(bytes);                      // waits until the data fits into SOFTNPU_DUMP_MEMORY
//   DumpWriter::submit(std::move(record));           // the reservation ends when the file is written or has failed
//   DumpWriter::wait_until_idle();
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/dump/dump_file.h"
#include "runtime/dump/dumps.h"
#include "runtime/operators.h"

namespace softnpu {

// The elements of the tensors of one operator, one tensor after the other. They are in reserved memory, or in a spool file if
// they need more than SOFTNPU_DUMP_MEMORY.
class DumpData {
 public:
  DumpData() = default;
  // Releases the memory.
  ~DumpData();
  DumpData(const DumpData&) = delete;
  DumpData& operator=(const DumpData&) = delete;

  // Waits until there is room for `bytes`, and reserves it.
  Status open(DumpSession& session, uint64_t bytes);
  // Appends the elements of a tensor.
  Status append(const SoftnpuOperatorTensor& tensor);
  Status copy_to(DumpFile& file) const;

 private:
  std::unique_ptr<std::byte[]> memory_;
  uint64_t reserved_ = 0;
  uint64_t used_ = 0;
  SpoolFile spool_;
};

struct DumpRecord {
  std::shared_ptr<DumpSession> session;
  DumpHeader header;
  std::string folder;  // relative to the folder of the session
  std::string type;
  uint64_t task = 0;
  int32_t stream = 0;
  DumpData data;
};

class DumpWriter {
 public:
  static void reserve(uint64_t bytes);
  static void release(uint64_t bytes);
  static void submit(std::unique_ptr<DumpRecord> record);
  // Returns when all records are written, or when no record was finished for 30 seconds.
  static void wait_until_idle();
};

}  // namespace softnpu
