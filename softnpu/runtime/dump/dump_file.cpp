#include "runtime/dump/dump_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#if __has_include(<protozero/pbf_writer.hpp>)
#define SOFTNPU_HAS_PROTOZERO 1
#include <protozero/pbf_writer.hpp>
#endif

namespace softnpu {
namespace {

Status write_bytes(int descriptor, const void* data, size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return {ACL_ERROR_INVALID_FILE, std::generic_category().message(errno)};
    next += written;
    bytes -= size_t(written);
  }
  return {};
}

Status os_failure(const std::string& path, const char* what) {
  return {ACL_ERROR_INVALID_FILE, text("'", path, "' cannot be ", what, ": ", std::generic_category().message(errno))};
}

#ifdef SOFTNPU_HAS_PROTOZERO

// The number of a data type in dump files; 0 for types that have no number there.
int32_t number_of_type(int32_t dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return 1;
    case ACL_FLOAT16:
      return 2;
    case ACL_INT8:
      return 3;
    case ACL_UINT8:
      return 4;
    case ACL_INT16:
      return 5;
    case ACL_UINT16:
      return 6;
    case ACL_INT32:
      return 7;
    case ACL_INT64:
      return 8;
    case ACL_UINT32:
      return 9;
    case ACL_UINT64:
      return 10;
    case ACL_BOOL:
      return 11;
    case ACL_DOUBLE:
      return 12;
    case ACL_COMPLEX64:
      return 16;
    case ACL_COMPLEX128:
      return 17;
    case ACL_BF16:
      return 27;
    default:
      return 0;
  }
}

// Fields whose protobuf numbers differ between inputs and outputs.
struct TensorFields {
  protozero::pbf_tag_type size;
  protozero::pbf_tag_type original_shape;
  protozero::pbf_tag_type address;
};
constexpr TensorFields kOutputFields{6, 7, 9};
constexpr TensorFields kInputFields{5, 6, 8};

std::string encode_tensor(const DumpedTensor& tensor) {
  std::string shape;
  protozero::pbf_writer(shape).add_packed_uint64(1, tensor.sizes.begin(), tensor.sizes.end());
  const TensorFields& fields = tensor.is_output ? kOutputFields : kInputFields;
  std::string message;
  protozero::pbf_writer writer(message);
  writer.add_int32(1, number_of_type(tensor.dtype));
  writer.add_int32(2, tensor.format);
  writer.add_message(3, shape);
  writer.add_uint64(fields.size, tensor.bytes);
  writer.add_message(fields.original_shape, shape);
  writer.add_uint64(fields.address, tensor.address);
  return message;
}

#endif

}  // namespace

#ifdef SOFTNPU_HAS_PROTOZERO

Status dump_files_are_possible() { return {}; }

std::string encode_begin(const DumpHeader& header) {
  std::string message;
  protozero::pbf_writer writer(message);
  writer.add_string(1, "2.0");
  writer.add_uint64(2, header.microseconds);
  for (const bool outputs : {true, false}) {  // the field numbers ascend: 3 for outputs, 4 for inputs
    for (const DumpedTensor& tensor : header.tensors) {
      if (tensor.is_output == outputs) writer.add_message(outputs ? 3 : 4, encode_tensor(tensor));
    }
  }
  writer.add_string(6, header.op_name);
  std::string begin;
  for (int byte = 0; byte < 8; ++byte) begin += char(uint64_t(message.size()) >> (8 * byte) & 0xFF);
  return begin + message;
}

#else

Status dump_files_are_possible() {
  return {
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "this device library was built without protozero, which encodes dump files; install libprotozero-dev (scripts/setup does) "
      "and build it again"};
}

std::string encode_begin(const DumpHeader& /*header*/) { return {}; }

#endif

std::string dump_file_name(const std::string& type, const std::string& name, uint64_t task, int32_t stream,
                           uint64_t microseconds) {
  const auto clean = [](std::string part) {
    for (char& letter : part) {
      if (std::strchr("./\\ ", letter) != nullptr) letter = '_';
    }
    return part;
  };
  return text(clean(type), ".", clean(name), ".", task, ".", stream, ".", microseconds);
}

DumpFile::~DumpFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (exists_) ::unlink(text(folder_, "/.", name_, ".part").c_str());
}

Status DumpFile::failure(const char* what) const { return os_failure(text(folder_, "/", name_), what); }

Status DumpFile::open(const std::string& folder, const std::string& name) {
  folder_ = folder;
  name_ = name;
  descriptor_ = ::open(text(folder, "/.", name, ".part").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (descriptor_ < 0) return failure("made");
  exists_ = true;
  return {};
}

Status DumpFile::write(const void* data, size_t bytes) {
  if (Status status = write_bytes(descriptor_, data, bytes); !status.ok()) {
    return {status.code(), text("'", folder_, "/", name_, "' cannot be written: ", status.message())};
  }
  return {};
}

Status DumpFile::commit() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0 && errno != EINTR) return failure("written");
  const std::string part = text(folder_, "/.", name_, ".part");
  const std::string whole = text(folder_, "/", name_);
  int result = ::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, whole.c_str(), RENAME_NOREPLACE);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS)) result = ::rename(part.c_str(), whole.c_str());
  if (result != 0) return failure("made");
  exists_ = false;
  return {};
}

SpoolFile::~SpoolFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status SpoolFile::open(const std::string& folder) {
  std::string path = text(folder, "/.spool.XXXXXX");
  descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0) return os_failure(path, "made");
  ::unlink(path.c_str());
  return {};
}

Status SpoolFile::append(const void* data, size_t bytes) { return write_bytes(descriptor_, data, bytes); }

Status SpoolFile::copy_to(DumpFile& file) const {
  constexpr size_t kPiece = size_t{1} << 20;
  const auto piece = std::make_unique<std::byte[]>(kPiece);
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(descriptor_, piece.get(), kPiece, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return {ACL_ERROR_INVALID_FILE, text("the temporary file with the elements of an operator cannot be read: ",
                                           std::generic_category().message(errno))};
    if (count == 0) return {};
    SOFTNPU_RETURN_IF_ERROR(file.write(piece.get(), size_t(count)));
    at += count;
  }
}

}  // namespace softnpu
