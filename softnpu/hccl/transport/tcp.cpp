#include "hccl/transport/tcp.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

namespace softnpu::hccl {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr size_t kMostAtOnce = size_t{1} << 20;
constexpr size_t kAlignment = 16;
constexpr int kClosed = -1;

}  // namespace

size_t TcpChannel::write(const std::byte* data, size_t bytes) {
  if (bytes == 0) return 0;
  const ssize_t sent = send(socket_.file(), data, std::min(bytes, kMostAtOnce), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) error_.store(errno, std::memory_order_relaxed);
  return 0;
}

size_t TcpChannel::receive(std::byte* data, size_t bytes) {
  if (bytes == 0) return 0;
  const ssize_t got = recv(socket_.file(), data, std::min(bytes, kMostAtOnce), MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) {
    error_.store(kClosed, std::memory_order_relaxed);
  } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    error_.store(errno, std::memory_order_relaxed);
  }
  return 0;
}

std::span<const std::byte> TcpChannel::peek(size_t most) {
  if (buffer_ == nullptr) buffer_ = std::make_unique<std::byte[]>(kBufferBytes);
  const bool is_short = end_ - begin_ < most && kBufferBytes - end_ < kBufferBytes / 2;
  if (begin_ % kAlignment != 0 || is_short) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ - begin_ < most) end_ += receive(buffer_.get() + end_, kBufferBytes - end_);
  return {buffer_.get() + begin_, std::min(most, end_ - begin_)};
}

size_t TcpChannel::read(std::byte* data, size_t bytes) {
  const size_t buffered = std::min(bytes, end_ - begin_);
  if (buffered > 0) std::memcpy(data, buffer_.get() + begin_, buffered);
  begin_ += buffered;
  return buffered + receive(data + buffered, bytes - buffered);
}

bool TcpChannel::holds(std::span<const size_t> items) {
  const size_t wanted = std::accumulate(items.begin(), items.end(), size_t{0});
  pollfd entry{socket_.file(), POLLRDHUP, 0};
  const bool has_ended = poll(&entry, 1, 0) > 0;
  int unread = 0;  // read after the end was seen, so that nothing more can arrive
  ioctl(socket_.file(), FIONREAD, &unread);
  if (end_ - begin_ + static_cast<size_t>(std::max(unread, 0)) >= wanted) return true;
  if (has_ended) error_.store(kClosed, std::memory_order_relaxed);
  return false;
}

std::string TcpChannel::problem() const {
  const int error = error_.load(std::memory_order_relaxed);
  if (error == 0) return "";
  return error == kClosed ? "the other side closed it" : std::strerror(error);
}

}  // namespace softnpu::hccl
