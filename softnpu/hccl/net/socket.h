// Sockets that close themselves, numeric addresses, and transfers with a deadline.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "hccl/errors.h"
#include "runtime/base/deadline.h"

namespace softnpu::hccl {

// "10.0.0.1:6000" or "[::1]:6000"; the host is a number, never a name to look up.
struct Endpoint {
  std::string host;
  uint16_t port = 0;

  std::string to_text() const;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Socket();

  int file() const { return file_; }
  bool is_open() const { return file_ >= 0; }
  void close() { *this = Socket(); }

  // All of the bytes, or HCCL_E_TIMEOUT, HCCL_E_TCP_TRANSFER.
  Status send_all(const void* data, size_t bytes, Deadline deadline) const;
  Status receive_all(void* data, size_t bytes, Deadline deadline) const;

  // A length and that many bytes. A longer frame than `most` is HCCL_E_TCP_TRANSFER.
  Status send_frame(const std::string& content, Deadline deadline) const;
  Status receive_frame(std::string* content, size_t most, Deadline deadline) const;

 private:
  int file_ = -1;
};

// Not blocking, without delay. HCCL_E_TCP_CONNECT names the endpoint and what to look at.
Result<Socket> connect_to(const Endpoint& endpoint, Deadline deadline);

// Listens; port 0 is any free one. The endpoint gets the port.
Result<Socket> listen_at(Endpoint* endpoint);

// Who is at the other end; "" if that cannot be told.
std::string peer_host(const Socket& socket);

// Makes a connected socket one for messages between ranks.
void prepare(const Socket& socket);

}  // namespace softnpu::hccl
