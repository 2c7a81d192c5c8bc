// What one writes in ten minutes instead of a stream: a thread, a mutex, a condition variable and a deque of std::function. The
// bars of this benchmark are ratios to it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace bench {

// Thread-safe. The destructor waits for everything that was enqueued.
class PlainQueue {
 public:
  PlainQueue() : worker_([this] { work(); }) {}
  ~PlainQueue() {
    enqueue(nullptr);
    worker_.join();
  }
  PlainQueue(const PlainQueue&) = delete;
  PlainQueue& operator=(const PlainQueue&) = delete;

  void enqueue(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++pending_;
    }
    work_came_.notify_one();
  }

  // Returns when everything enqueued before is done.
  void synchronize() {
    std::unique_lock lock(mutex_);
    work_ended_.wait(lock, [this] { return pending_ == 0; });
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      work_came_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
      lock.lock();
      if (--pending_ == 0) work_ended_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable work_ended_;
  std::deque<std::function<void()>> tasks_;
  uint64_t pending_ = 0;
  std::thread worker_;
};

}  // namespace bench
