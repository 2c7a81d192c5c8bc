// Holds a thread until it is opened, so that a queue stays busy while its callers are measured.
#pragma once

#include <condition_variable>
#include <mutex>

namespace bench {

// Opens when it goes out of scope at the latest. Must outlive whoever passes it.
class Gate {
 public:
  ~Gate() { open(); }

  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    is_reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  // Returns when somebody is held.
  void await_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  bool is_reached_ = false;
};

}  // namespace bench
