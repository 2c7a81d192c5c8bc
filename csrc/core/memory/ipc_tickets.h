// Words that a process and those to which it sent something both see: whether what was sent is still in use.
//
//   const SharedWords::Ticket ticket = SharedWords::own().take();        // travels with SharedWords::own().handle()
//   ...
//   const auto words = SharedWords::open(handle);                        // in the other process
//   words->hold(ticket);
//   words->release(ticket);                                              // and the sender's is_released(ticket) is true
//
// A ticket is received once. Who dies while it holds one has released it. The words lie in memory without a name, which is found
// under /proc while its process lives: nothing is left behind, however processes end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace torch_npu {

// Thread-safe.
class SharedWords {
 public:
  using Ticket = uint64_t;

  // Of this process.
  static SharedWords& own();
  // Of the process that made `handle`; throws if that has ended.
  static std::shared_ptr<SharedWords> open(const std::string& handle);
  ~SharedWords();
  SharedWords(const SharedWords&) = delete;
  SharedWords& operator=(const SharedWords&) = delete;

  // For open().
  const std::string& handle() const { return handle_; }

  // The sender: a ticket that nobody has received. After is_released() it is given back. To look for those who died costs a call
  // of the system.
  enum class Receivers : bool { kLiving, kLivingAndDead };
  Ticket take();
  bool is_released(Ticket ticket, Receivers receivers) const;
  bool is_held_here(Ticket ticket) const;
  void give_back(Ticket ticket);

  // The receiver. hold() throws if the ticket was received before. release() ends what hold() began, or what nobody held.
  void hold(Ticket ticket);
  void release(Ticket ticket) noexcept;

 private:
  struct Page;

  SharedWords(Page* page, int file, std::string handle) : page_(page), file_(file), handle_(std::move(handle)) {}
  static SharedWords* create();

  Page* const page_;
  const int file_;  // -1 if another process made it
  const std::string handle_;
  std::mutex mutex_;  // guards the following
  uint32_t used_ = 0;
  std::vector<uint32_t> unused_;
};

}  // namespace torch_npu
