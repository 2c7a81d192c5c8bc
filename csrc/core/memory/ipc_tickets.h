// Tickets in memory that two processes share. They tell the sender of a storage whether the receiver still uses it.
//
//   const IpcTickets::Ticket ticket = IpcTickets::own().take();     // sent together with IpcTickets::own().handle()
//   ...
//   const auto tickets = IpcTickets::open(handle);                  // in the other process
//   tickets->hold(ticket);
//   tickets->release(ticket);                                       // the sender's is_released(ticket) is true now
//
// A ticket can be received once. A process's tickets are released when it dies. The shared memory is an unnamed file, which other
// processes open under /proc while its process lives. So nothing is left behind when processes end.
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
class IpcTickets {
 public:
  using Ticket = uint64_t;

  // The tickets that this process issues.
  static IpcTickets& own();
  // The tickets of the process that made `handle`; throws if that process has ended.
  static std::shared_ptr<IpcTickets> open(const std::string& handle);
  ~IpcTickets();
  IpcTickets(const IpcTickets&) = delete;
  IpcTickets& operator=(const IpcTickets&) = delete;

  // The argument of open().
  const std::string& handle() const { return handle_; }

  // The sender's side. take() returns a new ticket; when is_released() is true, the sender returns it by give_back(). With
  // kLivingAndDead, is_released() also recognises tickets of dead receivers, which costs a system call.
  enum class Receivers : bool { kLiving, kLivingAndDead };
  Ticket take();
  bool is_released(Ticket ticket, Receivers receivers) const;
  // Whether this process holds the ticket itself.
  bool is_held_here(Ticket ticket) const;
  void give_back(Ticket ticket);

  // The receiver's side. hold() throws if the ticket was received before. release() also releases a ticket that was not received.
  void hold(Ticket ticket);
  void release(Ticket ticket) noexcept;

 private:
  struct Page;

  IpcTickets(Page* page, int file, std::string handle) : page_(page), file_(file), handle_(std::move(handle)) {}
  static IpcTickets* create();

  Page* const page_;
  const int file_;  // -1 for tickets of another process
  const std::string handle_;
  std::mutex mutex_;              // guards the following
  uint32_t used_ = 0;             // entries of the page that were ever in use
  std::vector<uint32_t> unused_;  // those of them that were given back
};

}  // namespace torch_npu
