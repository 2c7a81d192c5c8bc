#include "runtime/dump/writer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "runtime/base/options.h"
#include "runtime/dump/tensors.h"

namespace softnpu {
namespace {

constexpr auto kWriterPatience = std::chrono::seconds(30);
constexpr uint64_t kRecordBytes = 2048;          // estimated size of a record without its data
constexpr size_t kSpoolPiece = size_t{4} << 20;  // bytes that are copied to a spool file at a time

struct Writer {
  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<std::unique_ptr<DumpRecord>> records;
  uint64_t reserved = 0;
  uint64_t finished = 0;  // number of finished records
  bool is_writing = false;
  bool has_thread = false;
};

Writer& writer() {
  static auto* const one = new Writer;
  return *one;
}

Status write_record(const DumpRecord& record) {
  const std::string folder = text(record.session->folder(), "/", record.folder);
  SOFTNPU_RETURN_IF_ERROR(record.session->make_folder(folder));
  DumpFile file;
  SOFTNPU_RETURN_IF_ERROR(file.open(
      folder, dump_file_name(record.type, record.header.op_name, record.task, record.stream, record.header.microseconds)));
  const std::string begin = encode_begin(record.header);
  SOFTNPU_RETURN_IF_ERROR(file.write(begin.data(), begin.size()));
  SOFTNPU_RETURN_IF_ERROR(record.data.copy_to(file));
  return file.commit();
}

void write_or_stop(const DumpRecord& record) {
  if (record.session->is_stopped()) return;
  Status status;
  try {
    status = write_record(record);
  } catch (const std::exception& error) {
    status = {ACL_ERROR_INTERNAL_ERROR, error.what()};
  }
  if (status.ok()) return record.session->note_file();
  record.session->stop(status.message());
}

void write_records() {
  Writer& all = writer();
  std::unique_lock guard(all.mutex);
  for (;;) {
    all.changed.wait(guard, [&] { return !all.records.empty(); });
    std::unique_ptr<DumpRecord> record = std::move(all.records.front());
    all.records.pop_front();
    all.is_writing = true;
    guard.unlock();
    write_or_stop(*record);
    record.reset();
    guard.lock();
    all.is_writing = false;
    ++all.finished;
    all.changed.notify_all();
  }
}

// Starts the writer's thread with all signals blocked, so that signal handlers of the client run on its own threads.
void start_writer() {
  sigset_t every{}, before{};
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  std::thread(write_records).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

DumpData::~DumpData() {
  memory_.reset();
  if (reserved_ > 0) DumpWriter::release(reserved_);
}

Status DumpData::open(DumpSession& session, uint64_t bytes) {
  if (bytes + kRecordBytes <= options().dump_memory) {
    DumpWriter::reserve(bytes + kRecordBytes);
    reserved_ = bytes + kRecordBytes;
    memory_.reset(new (std::nothrow) std::byte[std::max<uint64_t>(bytes, 1)]);
    if (memory_ != nullptr) return {};
    return {ACL_ERROR_BAD_ALLOC, text("the host cannot allocate ", bytes, " bytes for the tensors of an operator")};
  }
  SOFTNPU_RETURN_IF_ERROR(session.make_folder(session.folder()));
  struct statvfs disk {};
  // The elements are written twice: to the spool file and to the dump file.
  if (::statvfs(session.folder().c_str(), &disk) == 0 && uint64_t(disk.f_bavail) * disk.f_frsize / 2 < bytes)
    return {ACL_ERROR_INVALID_FILE, text("the disk of '", session.folder(), "' has less than twice ", bytes, " bytes free")};
  return spool_.open(session.folder());
}

Status DumpData::append(const SoftnpuOperatorTensor& tensor) {
  const uint64_t bytes = bytes_of(tensor).value_or(0);
  ElementReader reader(tensor);
  if (!spool_.is_open()) {
    if (bytes > reserved_ - kRecordBytes - used_)
      return {ACL_ERROR_INTERNAL_ERROR, "an output of the operator grew beyond its reserved memory"};
    if (bytes > 0) reader.read(memory_.get() + used_, bytes);
    used_ += bytes;
    return {};
  }
  const auto piece = std::make_unique<std::byte[]>(kSpoolPiece);
  for (uint64_t left = bytes; left > 0;) {
    const size_t count = reader.read(piece.get(), kSpoolPiece);
    SOFTNPU_RETURN_IF_ERROR(spool_.append(piece.get(), count));
    left -= count;
  }
  return {};
}

Status DumpData::copy_to(DumpFile& file) const {
  return spool_.is_open() ? spool_.copy_to(file) : file.write(memory_.get(), used_);
}

void DumpWriter::reserve(uint64_t bytes) {
  Writer& all = writer();
  std::unique_lock guard(all.mutex);
  all.changed.wait(guard, [&] { return all.reserved + bytes <= options().dump_memory; });
  all.reserved += bytes;
}

void DumpWriter::release(uint64_t bytes) {
  Writer& all = writer();
  const std::lock_guard guard(all.mutex);
  all.reserved -= bytes;
  all.changed.notify_all();
}

void DumpWriter::submit(std::unique_ptr<DumpRecord> record) {
  Writer& all = writer();
  const std::lock_guard guard(all.mutex);
  if (!all.has_thread) start_writer();
  all.has_thread = true;
  all.records.push_back(std::move(record));
  all.changed.notify_all();
}

void DumpWriter::wait_until_idle() {
  Writer& all = writer();
  std::unique_lock guard(all.mutex);
  const auto is_idle = [&] { return all.records.empty() && !all.is_writing; };
  while (!is_idle()) {
    const uint64_t before = all.finished;
    const bool moved = all.changed.wait_for(guard, kWriterPatience, [&] { return is_idle() || all.finished != before; });
    if (!moved) return;
  }
}

}  // namespace softnpu
