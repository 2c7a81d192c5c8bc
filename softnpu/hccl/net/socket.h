// TCP sockets with numeric addresses and transfers with a deadline. A Socket closes its file when it is destroyed.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "hccl/errors.h"
#include "runtime/base/deadline.h"

namespace softnpu::hccl {

// The usual text of an IPv4 or IPv6 address, such as "::1" for "0:0:0:0:0:0:0:1"; empty if `text` is no address.
std::string canonical_address(const std::string& text);
inline bool is_address(const std::string& text) { return !canonical_address(text).empty(); }

// The host is an address; names are not looked up.
struct Endpoint {
  std::string host;
  uint16_t port = 0;

  // "10.0.0.1:6000" or "[::1]:6000"
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

  // Transfers all of the bytes; HCCL_E_TIMEOUT at the deadline, HCCL_E_TCP_TRANSFER if the connection ends.
  Status send_all(const void* data, size_t bytes, Deadline deadline) const;
  Status receive_all(void* data, size_t bytes, Deadline deadline) const;

  // A frame is a length and that many bytes. HCCL_E_TCP_TRANSFER for a length above `most`.
  Status send_frame(const std::string& content, Deadline deadline) const;
  Status receive_frame(std::string* content, size_t most, Deadline deadline) const;

 private:
  int file_ = -1;
};

// A connected socket after prepare(). HCCL_E_TCP_CONNECT names the endpoint and what to check.
Result<Socket> connect_to(const Endpoint& endpoint, Deadline deadline);

// Listens at the endpoint. Port 0 takes any free port and stores its number in the endpoint.
Result<Socket> listen_at(Endpoint* endpoint);

// The address of the other end; empty if the connection has ended.
std::string peer_host(const Socket& socket);

// Makes a connected socket non-blocking, without Nagle's delay and with keep-alive probes.
void prepare(const Socket& socket);

}  // namespace softnpu::hccl
