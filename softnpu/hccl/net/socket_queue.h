// Connections that one thread accepts and another thread uses. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "hccl/net/socket.h"

namespace softnpu::hccl {

class SocketQueue {
 public:
  void push(Socket socket) {
    const std::lock_guard lock(mutex_);
    sockets_.push_back(std::move(socket));
    arrived_.notify_one();
  }

  // Waits for the next connection. The result is not open if the deadline passes first.
  Socket pop(Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto has_one = [&] { return !sockets_.empty(); };
    if (deadline.is_never()) {
      arrived_.wait(lock, has_one);
    } else if (!arrived_.wait_until(lock, deadline.at(), has_one)) {
      return {};
    }
    Socket socket = std::move(sockets_.front());
    sockets_.pop_front();
    return socket;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Socket> sockets_;
};

}  // namespace softnpu::hccl
