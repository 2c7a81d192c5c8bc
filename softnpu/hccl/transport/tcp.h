// A channel over a TCP connection.
#pragma once

#include <atomic>
#include <memory>

#include "hccl/net/socket.h"
#include "hccl/transport/channel.h"

namespace softnpu::hccl {

class TcpChannel final : public Channel {
 public:
  explicit TcpChannel(Socket socket) : socket_(std::move(socket)) {}

  size_t write(const std::byte* data, size_t bytes) override;
  void end_write() override {}
  std::span<const std::byte> peek(size_t most) override;
  void consume(size_t bytes) override { begin_ += bytes; }
  size_t read(std::byte* data, size_t bytes) override;
  void end_read() override {}
  void flush_writes() override {}
  void flush_reads() override {}
  bool holds(std::span<const size_t> items) override;
  std::string problem() const override;
  int file() const override { return socket_.file(); }

 private:
  size_t receive(std::byte* data, size_t bytes);

  Socket socket_;
  std::unique_ptr<std::byte[]> buffer_;  // created by the first peek(); the bytes [begin_, end_) have arrived
  size_t begin_ = 0;
  size_t end_ = 0;
  std::atomic<int> error_{0};  // errno; kClosed if the other side closed
};

}  // namespace softnpu::hccl
