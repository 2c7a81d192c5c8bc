#include "runtime/memory/ipc_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "acl/acl_rt.h"
#include "runtime/base/round_up.h"
#include "runtime/engine/arena.h"
#include "runtime/memory/mapped_ranges.h"
#include "runtime/memory/virtual_memory.h"

namespace softnpu {
namespace {

constexpr uint64_t kMemoryMagic = 0x4E50554D454D3031;  // "NPUMEM01"
constexpr uint32_t kMostExports = 1 << 16;
constexpr size_t kMostPids = 20;
constexpr size_t kPage = 4096;

// The table entry of one piece of an export, which importers read. A range of mapped memory may have several pieces, with one
// token. The token is written last; it is 0 while the record is unused.
struct Record {
  uint64_t magic;
  std::atomic<uint64_t> token;
  uint64_t offset;  // in the file
  uint64_t bytes;
  int32_t file;  // the exporter's file descriptor of the heap
  uint32_t importers;
  uint64_t next;                        // number of the record of the next piece; 0: none
  std::array<int32_t, kMostPids> pids;  // 0: none
};
static_assert(sizeof(Record) == 128);

struct Key {
  int32_t pid;
  int32_t table;  // the exporter's file descriptor of the table
  uint32_t record;
  uint64_t token;

  std::string to_text() const {
    std::array<char, ACL_IPC_HANDLE_SIZE> text;
    std::snprintf(text.data(), text.size(), "npumem%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%016" PRIx64, pid, table, record,
                  token);
    return text.data();
  }
  static Result<Key> from_text(const std::string& text) {
    Key key{};
    int end = 0;
    const int read = std::sscanf(text.c_str(), "npumem%8" SCNx32 "%8" SCNx32 "%8" SCNx32 "%16" SCNx64 "%n",
                                 reinterpret_cast<uint32_t*>(&key.pid), reinterpret_cast<uint32_t*>(&key.table), &key.record,
                                 &key.token, &end);
    const bool is_whole = read == 4 && static_cast<size_t>(end) == text.size() && key.to_text() == text;
    if (is_whole && key.record < kMostExports && key.token != 0) return key;
    return Status(ACL_ERROR_RT_PARAM_INVALID, "the text is not a key made by aclrtIpcMemGetExportKey");
  }
};

struct Export {
  const std::byte* begin;
  size_t bytes;
  std::vector<uint32_t> records;  // one per piece
};

using Piece = VirtualMemory::Piece;

struct Import {
  std::byte* segment;
  std::byte* begin;
  size_t bytes;
  uint32_t uses;
};

struct IpcState {
  std::mutex mutex;
  int file = -1;  // of the records; both are created by the first export
  Record* records = nullptr;
  std::vector<Export> exports;
  std::map<std::string, Import> imports;

  Key key_of(const Export& exported) const {
    return {getpid(), file, exported.records[0], records[exported.records[0]].token.load(std::memory_order_relaxed)};
  }
  auto find_export(const Key& key) {
    return std::find_if(exports.begin(), exports.end(), [&](const Export& exported) {
      return exported.records[0] == key.record && records[key.record].token.load(std::memory_order_relaxed) == key.token;
    });
  }
};

IpcState& ipc_state() {
  static IpcState* const leaked = new IpcState;
  return *leaked;
}

Status ipc_memory_failure(const char* what) { return {ACL_ERROR_RT_IPC_ERROR, text(what, ": ", std::strerror(errno))}; }

Status open_table(IpcState& shared) {
  if (shared.records != nullptr) return {};
  constexpr size_t kBytes = kMostExports * sizeof(Record);  // sparse
  const int file = memfd_create("softnpu-exports", MFD_CLOEXEC);
  if (file < 0) return ipc_memory_failure("the table of shared memory cannot be made");
  void* const table =
      ftruncate(file, kBytes) == 0 ? mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (table == MAP_FAILED) {
    Status status = ipc_memory_failure("the table of shared memory cannot be mapped");
    ::close(file);
    return status;
  }
  shared.file = file;
  shared.records = static_cast<Record*>(table);
  return {};
}

uint64_t random_token() {
  uint64_t token = 0;
  if (getrandom(&token, sizeof token, 0) != sizeof token || token == 0) token = static_cast<uint64_t>(getpid()) << 32 | 1;
  return token;
}

// Numbers of up to `count` unused records. Record 0 is never used: number 0 means that there is no record.
std::vector<uint32_t> unused_records(const IpcState& shared, size_t count) {
  std::vector<bool> used(kMostExports);
  for (const Export& exported : shared.exports) {
    for (const uint32_t record : exported.records) used[record] = true;
  }
  std::vector<uint32_t> unused;
  for (uint32_t record = 1; record < kMostExports && unused.size() < count; ++record) {
    if (!used[record]) unused.push_back(record);
  }
  return unused;
}

// The pieces of the range in the file of its heap. Empty if the memory belongs to another process.
std::vector<Piece> pieces_of(const std::byte* begin, size_t bytes) {
  const auto* const heap = static_cast<const std::byte*>(Arena::heap_begin(Arena::device_of(begin)));
  if (begin < heap + Arena::capacity()) return {{begin - heap, bytes}};
  std::vector<Piece> pieces;
  while (bytes > 0) {
    std::optional<Piece> piece = VirtualMemory::piece_at(begin);
    if (!piece) return {};
    piece->bytes = std::min(piece->bytes, bytes);
    pieces.push_back(*piece);
    begin += piece->bytes;
    bytes -= piece->bytes;
  }
  return pieces;
}

void end_export(IpcState& shared, std::vector<Export>::iterator exported) {
  for (const uint32_t record : exported->records) shared.records[record].token.store(0, std::memory_order_release);
  shared.exports.erase(exported);
}

Status end_import(const Import& imported) {
  MappedRanges::instance().remove(imported.begin, imported.bytes);
  return Arena::release_segment(imported.segment);
}

// A file of another process, opened through /proc. The destructor closes it.
class ForeignFile {
 public:
  ForeignFile(int32_t pid, int32_t number) : file_(::open(text("/proc/", pid, "/fd/", number).c_str(), O_RDWR | O_CLOEXEC)) {}
  ~ForeignFile() {
    if (file_ >= 0) ::close(file_);
  }
  ForeignFile(const ForeignFile&) = delete;
  ForeignFile& operator=(const ForeignFile&) = delete;

  int number() const { return file_; }
  bool read(void* bytes, size_t count, off_t offset) const { return pread(file_, bytes, count, offset) == ssize_t(count); }

 private:
  int file_;
};

Status read_record(const ForeignFile& table, const Key& key, uint64_t number, Record& record) {
  if (table.number() < 0) {
    return {ACL_ERROR_RT_IPC_ERROR, text("the memory of process ", key.pid, " cannot be opened (", std::strerror(errno),
                                         "); that process must be alive, of the same user, and hold the memory")};
  }
  const bool is_read = table.read(&record, sizeof record, static_cast<off_t>(number * sizeof(Record)));
  if (is_read && record.magic == kMemoryMagic && record.token.load(std::memory_order_relaxed) == key.token) return {};
  return {ACL_ERROR_RT_IPC_ERROR, text("process ", key.pid, " no longer shares that memory: it was freed, or its key closed")};
}

Status check_allowed(const Key& key, const Record& record) {
  if (record.importers == static_cast<uint32_t>(IpcMemory::Importers::kAll)) return {};
  if (std::find(record.pids.begin(), record.pids.end(), getpid()) != record.pids.end()) return {};
  return {ACL_ERROR_RT_IPC_ERROR,
          text("process ", key.pid, " does not share that memory with process ", getpid(),
               "; it names it with aclrtIpcMemSetImportPid, or exports with ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION")};
}

Result<std::vector<Piece>> read_pieces(const ForeignFile& table, const Key& key) {
  std::vector<Piece> pieces;
  Record record{};
  for (uint64_t number = key.record; number != 0; number = record.next) {
    SOFTNPU_RETURN_IF_ERROR(read_record(table, key, number, record));
    pieces.push_back({static_cast<off_t>(record.offset), record.bytes});
  }
  SOFTNPU_RETURN_IF_ERROR(read_record(table, key, key.record,
                                      record));  // checks that the token is unchanged, so that all records belong to one export
  return pieces;
}

// Maps the pieces one after another, in whole pages. The range may begin and end within a page.
Result<Import> map_range(int device, const ForeignFile& heap, const std::vector<Piece>& pieces) {
  const size_t inside = static_cast<size_t>(pieces[0].offset) % kPage;
  size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  Result<void*> segment = Arena::reserve_segment(device, round_up(inside + bytes, kPage));
  if (!segment.ok()) return segment.take_status();
  auto* const first = static_cast<std::byte*>(segment.value());
  std::byte* place = first;
  for (const Piece& piece : pieces) {
    const size_t before = static_cast<size_t>(piece.offset) % kPage;
    const size_t mapped = round_up(before + piece.bytes, kPage);
    Status status = Arena::map_in_segment(place, mapped, heap.number(), piece.offset - static_cast<off_t>(before));
    if (!status.ok()) {
      static_cast<void>(Arena::release_segment(first));
      return status;
    }
    place += mapped;
  }
  MappedRanges::instance().add(first + inside, bytes, first);
  return Import{.segment = first, .begin = first + inside, .bytes = bytes, .uses = 1};
}

}  // namespace

Result<std::string> IpcMemory::export_range(const void* pointer, size_t bytes, Importers importers) {
  if (bytes == 0) return Status(ACL_ERROR_RT_PARAM_INVALID, "an export of 0 bytes was asked for");
  const auto* const begin = static_cast<const std::byte*>(pointer);
  const std::vector<Piece> pieces = pieces_of(begin, bytes);
  if (pieces.empty()) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, text(pointer, " was imported; only memory of this process is exported"));
  }
  IpcState& shared = ipc_state();
  const std::lock_guard lock(shared.mutex);
  SOFTNPU_RETURN_IF_ERROR(open_table(shared));
  for (const Export& exported : shared.exports) {
    const bool is_same = exported.begin == begin && exported.bytes == bytes &&
                         shared.records[exported.records[0]].importers == static_cast<uint32_t>(importers);
    if (is_same) return shared.key_of(exported).to_text();
  }
  const Export exported{begin, bytes, unused_records(shared, pieces.size())};
  if (exported.records.size() < pieces.size()) {
    return Status(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text("the process shares ", kMostExports, " ranges; close or free some"));
  }
  const uint64_t token = random_token();
  for (size_t index = pieces.size(); index-- > 0;) {
    Record& record = shared.records[exported.records[index]];
    record.magic = kMemoryMagic;
    record.offset = static_cast<uint64_t>(pieces[index].offset);
    record.bytes = pieces[index].bytes;
    record.file = Arena::heap_file(Arena::device_of(pointer));
    record.importers = static_cast<uint32_t>(importers);
    record.next = index + 1 < pieces.size() ? exported.records[index + 1] : 0;
    record.pids.fill(0);
    record.token.store(token, std::memory_order_release);
  }
  shared.exports.push_back(exported);
  return shared.key_of(exported).to_text();
}

Status IpcMemory::allow(const std::string& text_of_key, std::span<const int32_t> pids) {
  Result<Key> key = Key::from_text(text_of_key);
  if (!key.ok()) return key.take_status();
  IpcState& shared = ipc_state();
  const std::lock_guard lock(shared.mutex);
  const auto exported = key.value().pid == getpid() ? shared.find_export(key.value()) : shared.exports.end();
  if (exported == shared.exports.end()) return {ACL_ERROR_RT_PARAM_INVALID, "this process exports no memory under that key"};
  Record& record = shared.records[exported->records[0]];
  for (const int32_t pid : pids) {
    if (pid <= 0) return {ACL_ERROR_RT_PARAM_INVALID, text(pid, " is no process")};
    if (std::find(record.pids.begin(), record.pids.end(), pid) != record.pids.end()) continue;
    const auto place = std::find(record.pids.begin(), record.pids.end(), 0);
    if (place == record.pids.end()) {
      return {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              text("at most ", kMostPids, " processes can be named; export with the flag that allows all")};
    }
    *place = pid;
  }
  return {};
}

Result<void*> IpcMemory::import_range(const std::string& text_of_key, int device) {
  Result<Key> parsed = Key::from_text(text_of_key);
  if (!parsed.ok()) return parsed.take_status();
  const Key key = parsed.value();
  IpcState& shared = ipc_state();
  const std::lock_guard lock(shared.mutex);
  const auto known = shared.imports.find(text_of_key);
  if (known != shared.imports.end() && Arena::device_of(known->second.begin) == device) {
    ++known->second.uses;
    return static_cast<void*>(known->second.begin);
  }
  if (known != shared.imports.end()) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, text("the memory is imported on device ", Arena::device_of(known->second.begin),
                                                   " already; close it there first"));
  }
  const ForeignFile table(key.pid, key.table);
  Record record{};
  SOFTNPU_RETURN_IF_ERROR(read_record(table, key, key.record, record));
  SOFTNPU_RETURN_IF_ERROR(check_allowed(key, record));
  const ForeignFile heap(key.pid, record.file);
  Result<std::vector<Piece>> pieces =
      read_pieces(table, key);  // after the heap was opened: the token proves that the file is still the right one
  if (!pieces.ok()) return pieces.take_status();
  if (heap.number() < 0) return ipc_memory_failure("the shared memory cannot be opened");
  Result<Import> imported = map_range(device, heap, pieces.value());
  if (!imported.ok()) return imported.take_status();
  shared.imports.emplace(text_of_key, imported.value());
  return static_cast<void*>(imported.value().begin);
}

Status IpcMemory::close(const std::string& text_of_key) {
  Result<Key> key = Key::from_text(text_of_key);
  if (!key.ok()) return key.take_status();
  IpcState& shared = ipc_state();
  const std::lock_guard lock(shared.mutex);
  if (const auto imported = shared.imports.find(text_of_key); imported != shared.imports.end()) {
    if (--imported->second.uses > 0) return {};
    Status status = end_import(imported->second);
    shared.imports.erase(imported);
    return status;
  }
  const auto exported = key.value().pid == getpid() ? shared.find_export(key.value()) : shared.exports.end();
  if (exported == shared.exports.end()) return {ACL_ERROR_RT_PARAM_INVALID, "this process has no memory open under that key"};
  end_export(shared, exported);
  return {};
}

void IpcMemory::forget_exports(const void* begin, size_t bytes) {
  IpcState& shared = ipc_state();
  const std::lock_guard lock(shared.mutex);
  const auto* const first = static_cast<const std::byte*>(begin);
  for (size_t index = shared.exports.size(); index-- > 0;) {
    const Export& exported = shared.exports[index];
    if (exported.begin < first + bytes && first < exported.begin + exported.bytes)
      end_export(shared, shared.exports.begin() + static_cast<ptrdiff_t>(index));
  }
}

void IpcMemory::forget_device(int device) {
  IpcState& shared = ipc_state();
  const std::lock_guard lock(shared.mutex);
  for (size_t index = shared.exports.size(); index-- > 0;) {
    if (Arena::device_of(shared.exports[index].begin) == device)
      end_export(shared, shared.exports.begin() + static_cast<ptrdiff_t>(index));
  }
  for (auto imported = shared.imports.begin(); imported != shared.imports.end();) {
    if (Arena::device_of(imported->second.begin) != device) {
      ++imported;
      continue;
    }
    static_cast<void>(end_import(imported->second));
    imported = shared.imports.erase(imported);
  }
}

}  // namespace softnpu
