#include "hccl/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace softnpu::hccl {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

bool to_socket_address(const Endpoint& endpoint, SocketAddress* out) {
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&out->storage);
  if (inet_pton(AF_INET, endpoint.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    out->length = sizeof *v4;
    return true;
  }
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&out->storage);
  if (inet_pton(AF_INET6, endpoint.host.c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(endpoint.port);
  out->length = sizeof *v6;
  return true;
}

std::string to_text(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = "";
  const bool is_v4 = address.storage.ss_family == AF_INET;
  const void* const number = is_v4
                                 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr)
                                 : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  inet_ntop(address.storage.ss_family, number, host, sizeof host);
  return host;
}

// Milliseconds for poll(), at most a second.
int poll_time(Deadline deadline) {
  if (deadline.is_never()) return 1000;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.at() - Deadline::Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left + 1, 0, 1000));
}

Status wait_for(int file, short events, Deadline deadline) {
  while (true) {
    pollfd entry{file, events, 0};
    const int ready = poll(&entry, 1, poll_time(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_failure("waiting for a socket failed");
    if (deadline.passed()) return {HCCL_E_TIMEOUT, "the other side of a connection did not answer in time"};
  }
}

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

std::string canonical_address(const std::string& text) {
  SocketAddress address;
  return to_socket_address({text, 0}, &address) ? to_text(address) : "";
}

std::string Endpoint::to_text() const {
  return host.find(':') == std::string::npos ? text(host, ":", port) : text("[", host, "]:", port);
}

Socket::~Socket() {
  if (file_ >= 0) ::close(file_);
}

Status Socket::send_all(const void* data, size_t bytes, Deadline deadline) const {
  const auto* next = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(file_, next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      next += sent, bytes -= static_cast<size_t>(sent);
    } else if (must_wait()) {
      SOFTNPU_RETURN_IF_ERROR(wait_for(file_, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return system_failure("a connection broke", HCCL_E_TCP_TRANSFER);
    }
  }
  return {};
}

Status Socket::receive_all(void* data, size_t bytes, Deadline deadline) const {
  auto* next = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(file_, next, bytes, MSG_DONTWAIT);
    if (got > 0) {
      next += got, bytes -= static_cast<size_t>(got);
    } else if (got == 0) {
      return {HCCL_E_TCP_TRANSFER, "the other side closed the connection"};
    } else if (must_wait()) {
      SOFTNPU_RETURN_IF_ERROR(wait_for(file_, POLLIN, deadline));
    } else if (errno != EINTR) {
      return system_failure("a connection broke", HCCL_E_TCP_TRANSFER);
    }
  }
  return {};
}

Status Socket::send_frame(const std::string& content, Deadline deadline) const {
  const uint32_t length = htonl(static_cast<uint32_t>(content.size()));
  std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
  frame += content;
  return send_all(frame.data(), frame.size(), deadline);
}

Status Socket::receive_frame(std::string* content, size_t most, Deadline deadline) const {
  uint32_t length = 0;
  SOFTNPU_RETURN_IF_ERROR(receive_all(&length, sizeof length, deadline));
  length = ntohl(length);
  if (length > most) return {HCCL_E_TCP_TRANSFER, text("a message of ", length, " bytes is longer than ", most)};
  content->resize(length);
  return receive_all(content->data(), length, deadline);
}

Result<Socket> connect_to(const Endpoint& endpoint, Deadline deadline) {
  SocketAddress address;
  if (!to_socket_address(endpoint, &address)) {
    return Status(HCCL_E_PARA, text("host not found: '", endpoint.host, "' is not an IPv4 or IPv6 address"));
  }
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_failure("socket() failed", HCCL_E_NETWORK);
  const auto failure = [&](const char* reason) {
    return Status(
        HCCL_E_TCP_CONNECT,
        text("connect() to ", endpoint.to_text(), " failed: ", reason,
             "; check that the rank's process runs, that its HCCL_IF_IP can be reached, and that no firewall blocks the "
             "port"));
  };
  if (::connect(socket.file(), reinterpret_cast<sockaddr*>(&address.storage), address.length) != 0) {
    if (errno != EINPROGRESS) return failure(std::strerror(errno));
    const Status waited = wait_for(socket.file(), POLLOUT, deadline);
    if (!waited.ok()) return failure("timed out");
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return failure(std::strerror(error));
  }
  prepare(socket);
  return socket;
}

Result<Socket> listen_at(Endpoint* endpoint) {
  SocketAddress address;
  if (!to_socket_address(*endpoint, &address)) {
    return Status(HCCL_E_PARA, text("host not found: '", endpoint->host, "' is not an IPv4 or IPv6 address"));
  }
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_failure("socket() failed", HCCL_E_NETWORK);
  const int on = 1;
  setsockopt(socket.file(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto* const plain = reinterpret_cast<sockaddr*>(&address.storage);
  if (::bind(socket.file(), plain, address.length) != 0 || ::listen(socket.file(), 1024) != 0) {
    return system_failure(text("listening at ", endpoint->to_text(), " failed"), HCCL_E_NETWORK);
  }
  getsockname(socket.file(), plain, &address.length);
  const bool is_v4 = address.storage.ss_family == AF_INET;
  endpoint->port =
      ntohs(is_v4 ? reinterpret_cast<sockaddr_in*>(plain)->sin_port : reinterpret_cast<sockaddr_in6*>(plain)->sin6_port);
  return socket;
}

std::string peer_host(const Socket& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(socket.file(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return "";
  return to_text(address);
}

void prepare(const Socket& socket) {
  const int on = 1, idle = 5, interval = 2, count = 3;
  setsockopt(socket.file(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket.file(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket.file(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket.file(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(socket.file(), IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  fcntl(socket.file(), F_SETFL, fcntl(socket.file(), F_GETFL) | O_NONBLOCK);
}

}  // namespace softnpu::hccl
