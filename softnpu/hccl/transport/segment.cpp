#include "hccl/transport/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>

namespace softnpu::hccl {
namespace {

constexpr uint64_t kMagic = 0x32676573'6c636368;
constexpr size_t kReasonBytes = 448;
constexpr size_t kPage = 4096;

size_t ring_stride(size_t ring_bytes) { return sizeof(Segment::Ring) + ring_bytes; }

}  // namespace

struct Segment::Head {
  uint64_t magic;
  uint64_t token;
  uint32_t ranks;
  uint32_t unused;
  uint64_t ring_bytes;
};

struct Segment::Rank {
  alignas(64) std::atomic<uint32_t> wakes;
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> is_final;
  char reason[kReasonBytes];
};

Result<std::unique_ptr<Segment>> Segment::create(uint32_t ranks, uint64_t token, size_t most_bytes) {
  std::unique_ptr<Segment> segment(new Segment);
  const size_t rings = kLanes * ranks * ranks;
  segment->ranks_ = ranks;
  segment->ring_bytes_ = std::clamp(std::bit_floor(std::max<size_t>(most_bytes / rings, 1)), size_t{16} << 10, size_t{256} << 10);
  segment->file_ = memfd_create("softnpu_hccl", MFD_CLOEXEC);
  if (segment->file_ < 0) return system_failure("shared memory cannot be created");
  const size_t front = (sizeof(Head) + 63) / 64 * 64 + ranks * sizeof(Rank);
  const size_t bytes = (front + rings * ring_stride(segment->ring_bytes_) + kPage - 1) / kPage * kPage;
  if (ftruncate(segment->file_, static_cast<off_t>(bytes)) != 0) return system_failure("shared memory cannot be created");
  SOFTNPU_RETURN_IF_ERROR(segment->map(bytes));
  const Head head{kMagic, token, ranks, 0, segment->ring_bytes_};
  std::memcpy(segment->base_, &head, sizeof head);
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::open(int pid, int number, uint32_t ranks, uint64_t token) {
  std::unique_ptr<Segment> segment(new Segment);
  segment->file_ = ::open(text("/proc/", pid, "/fd/", number).c_str(), O_RDWR | O_CLOEXEC);
  if (segment->file_ < 0) return system_failure(text("the shared memory of process ", pid, " cannot be opened"));
  struct stat about {};
  if (fstat(segment->file_, &about) != 0) return system_failure("shared memory cannot be opened");
  Head head{};
  const bool is_read = pread(segment->file_, &head, sizeof head, 0) == ssize_t(sizeof head);
  const size_t rings = kLanes * ranks * ranks;
  const size_t front = (sizeof(Head) + 63) / 64 * 64 + ranks * sizeof(Rank);
  const bool is_right = is_read && head.magic == kMagic && head.token == token && head.ranks == ranks &&
                        std::has_single_bit(head.ring_bytes) && head.ring_bytes <= size_t{256} << 10 &&
                        size_t(about.st_size) >= front + rings * ring_stride(head.ring_bytes);
  if (!is_right)
    return Status(HCCL_E_INTERNAL, text("the file of process ", pid, " is not the shared memory of this communicator"));
  segment->ranks_ = ranks;
  segment->ring_bytes_ = head.ring_bytes;
  SOFTNPU_RETURN_IF_ERROR(segment->map(static_cast<size_t>(about.st_size)));
  return segment;
}

Status Segment::map(size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) return system_failure("shared memory cannot be mapped");
  madvise(mapped, bytes, MADV_DONTFORK);
  base_ = static_cast<std::byte*>(mapped);
  bytes_ = bytes;
  return {};
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, bytes_);
  close_file();
}

void Segment::close_file() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

Segment::Rank& Segment::rank(uint32_t number) const {
  return reinterpret_cast<Rank*>(base_ + (sizeof(Head) + 63) / 64 * 64)[number];
}

Segment::Ring& Segment::ring(Lane lane, uint32_t from, uint32_t to) {
  const size_t front = (sizeof(Head) + 63) / 64 * 64 + ranks_ * sizeof(Rank);
  const size_t index = (static_cast<size_t>(lane) * ranks_ + from) * ranks_ + to;
  return *reinterpret_cast<Ring*>(base_ + front + index * ring_stride(ring_bytes_));
}

std::byte* Segment::ring_data(Lane lane, uint32_t from, uint32_t to) {
  return reinterpret_cast<std::byte*>(&ring(lane, from, to)) + sizeof(Ring);
}

void Segment::wake(uint32_t number) {
  Rank& sleeper = rank(number);
  if (sleeper.sleepers.load(std::memory_order_seq_cst) == 0) return;
  sleeper.wakes.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &sleeper.wakes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint32_t Segment::prepare_sleep(uint32_t number) {
  Rank& own = rank(number);
  own.sleepers.fetch_add(1, std::memory_order_seq_cst);
  return own.wakes.load(std::memory_order_seq_cst);
}

void Segment::sleep(uint32_t number, uint32_t ticket, Deadline deadline) {
  const auto since_boot = deadline.at().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  const timespec until{seconds.count(), std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot - seconds).count()};
  syscall(SYS_futex, &rank(number).wakes, FUTEX_WAIT_BITSET, ticket, deadline.is_never() ? nullptr : &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void Segment::end_sleep(uint32_t number) { rank(number).sleepers.fetch_sub(1, std::memory_order_seq_cst); }

void Segment::set_state(uint32_t number, RankState state, const std::string& reason) {
  Rank& own = rank(number);
  if (own.is_final.exchange(1, std::memory_order_seq_cst) != 0) return;
  const size_t length = std::min(reason.size(), kReasonBytes - 1);
  std::memcpy(own.reason, reason.data(), length);
  own.reason[length] = '\0';
  own.state.store(static_cast<uint32_t>(state), std::memory_order_seq_cst);
  for (uint32_t other = 0; other < ranks_; ++other) wake(other);
}

RankState Segment::state(uint32_t number) const {
  return static_cast<RankState>(rank(number).state.load(std::memory_order_seq_cst));
}

std::string Segment::reason(uint32_t number) const {
  const char* const words = rank(number).reason;
  return {words, strnlen(words, kReasonBytes)};
}

}  // namespace softnpu::hccl
