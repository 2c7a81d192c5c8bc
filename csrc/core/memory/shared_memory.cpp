#include "core/memory/shared_memory.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "acl/symbol.h"
#include "core/device/late_errors.h"
#include "core/memory/allocator.h"
#include "core/memory/ipc_tickets.h"
#include "core/stream/all_work.h"
#include "core/stream/unpooled_event.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

using Receivers = IpcTickets::Receivers;

// Memory that this process sent.
struct Sent {
  at::DataPtr memory;
  struct Message {
    IpcTickets::Ticket ticket;
    UniqueEvent event;
  };
  std::vector<Message> messages{};
  bool is_freed = false;  // the sender has freed its storage

  void forget_released(Receivers receivers) {
    std::erase_if(messages, [&](const Message& message) {
      if (!IpcTickets::own().is_released(message.ticket, receivers)) return false;
      IpcTickets::own().give_back(message.ticket);
      return true;
    });
  }
};

struct Outbox {
  std::mutex mutex;  // guards the following, and every Sent
  std::unordered_map<const Sent*, std::unique_ptr<Sent>> all;

  static Outbox& instance() {
    static Outbox* const leaked = new Outbox;
    return *leaked;
  }
};

// Deleter of sent memory, whose context is its Sent.
void free_sent(void* context) {
  if (is_in_bad_fork()) return;
  auto* const sent = static_cast<Sent*>(context);
  Outbox& outbox = Outbox::instance();
  std::unique_ptr<Sent> unused;  // destroyed after the lock is released
  const std::lock_guard lock(outbox.mutex);
  sent->is_freed = true;
  sent->forget_released(Receivers::kLiving);
  if (sent->messages.empty()) unused = std::move(outbox.all.extract(sent).mapped());
}

size_t collect(Receivers receivers) noexcept {
  Outbox& outbox = Outbox::instance();
  std::vector<std::unique_ptr<Sent>> unused;  // destroyed after the lock is released
  const std::lock_guard lock(outbox.mutex);
  size_t in_use = 0;
  for (auto entry = outbox.all.begin(); entry != outbox.all.end();) {
    Sent& sent = *entry->second;
    sent.forget_released(receivers);
    in_use += std::any_of(sent.messages.begin(), sent.messages.end(),
                          [](const Sent::Message& message) { return !IpcTickets::own().is_held_here(message.ticket); });
    if (sent.messages.empty() && sent.is_freed) {
      unused.push_back(std::move(entry->second));
      entry = outbox.all.erase(entry);
    } else {
      ++entry;
    }
  }
  return in_use;
}

// Gives `pointer` a context that keeps the memory as long as receivers use it. The address in `pointer` does not change, because
// other threads may read it: the thread that feeds a queue sends storages that the program still uses.
Sent& keep_for_others(Outbox& outbox, at::DataPtr& pointer) {
  if (pointer.get_deleter() == &free_sent) return *static_cast<Sent*>(pointer.get_context());
  auto made = std::make_unique<Sent>();
  Sent& sent = *made;
  outbox.all.emplace(&sent, std::move(made));
  std::unique_ptr<void, c10::DeleterFnPtr>&& context = pointer.move_context();  // only a reference
  const c10::DeleterFnPtr deleter = context.get_deleter();
  sent.memory = at::DataPtr(pointer.get(), context.release(), deleter, pointer.device());
  context = {&sent, &free_sent};
  return sent;
}

// An allocation of another process, mapped into this one. One object per key, shared by its users.
class Mapping {
 public:
  static std::shared_ptr<Mapping> open(const std::string& key, c10::DeviceIndex device) {
    static std::mutex mutex;
    static auto* const opened = new std::map<std::string, std::weak_ptr<Mapping>>;
    const std::lock_guard lock(mutex);
    std::erase_if(*opened, [](const auto& entry) { return entry.second.expired(); });
    if (const auto found = opened->find(key); found != opened->end()) {
      if (auto mapping = found->second.lock()) return mapping;
    }
    std::shared_ptr<Mapping> mapping(new Mapping(key, device));
    ACL_CALL(aclrtIpcMemImportByKey, &mapping->address_, key.c_str(), ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS);
    (*opened)[key] = mapping;
    return mapping;
  }
  // No work may use the memory any more.
  ~Mapping() {
    if (address_ == nullptr || is_in_bad_fork()) return;
    try {
      const BoundDevice bound(device_);
      ACL_FN(aclrtIpcMemClose)(key_.c_str());
    } catch (const std::exception&) {  // the device may be gone at exit
    }
  }

  char* address() const { return static_cast<char*>(address_); }

 private:
  Mapping(std::string key, c10::DeviceIndex device) : key_(std::move(key)), device_(device) {}

  const std::string key_;
  const c10::DeviceIndex device_;
  void* address_ = nullptr;
};

// Memory that this process received.
struct Received {
  std::shared_ptr<Mapping> mapping;
  std::shared_ptr<IpcTickets> tickets;
  IpcTickets::Ticket ticket;

  // No work may use the memory any more.
  void release() {
    mapping.reset();
    tickets->release(ticket);
  }
};

// Received memory that this process has freed and that work may still use.
class FreedReceived {
 public:
  static FreedReceived& instance() {
    static FreedReceived* const leaked = new FreedReceived;
    return *leaked;
  }

  void add(std::unique_ptr<Received> received) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(received));
  }

  // Releases all of it after a wait for all work. Does nothing during a capture. Throws if the wait fails, and keeps it.
  void release() {
    std::vector<std::unique_ptr<Received>> freed;
    {
      const std::lock_guard lock(mutex_);
      freed.swap(all_);
    }
    if (freed.empty()) return;
    const auto put_back = c10::make_scope_exit([&] {
      const std::lock_guard lock(mutex_);
      std::move(freed.begin(), freed.end(), std::back_inserter(all_));
    });
    const InterpreterUnlocked unlocked;  // the work may need Python
    const NoCaptures no_captures;
    if (!no_captures.holds()) return;
    wait_for_all_work();
    for (const auto& received : freed) received->release();
    freed.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Received>> all_;  // guarded by mutex_
};

// Waits for all work, because any stream that waited for the receiving one may use the memory. If the user interrupts the wait,
// if it takes too long, and during a capture, a later call or collect_sent_memory() releases the memory.
void free_received(void* context) {
  if (is_in_bad_fork()) return;
  FreedReceived::instance().add(std::unique_ptr<Received>(static_cast<Received*>(context)));
  try {
    FreedReceived::instance().release();
  } catch (...) {
    raise_later(std::current_exception());
  }
}

}  // namespace

SentStorage send_storage(c10::StorageImpl& storage) {
  TORCH_CHECK(!is_in_bad_fork(),
              "a forked process cannot send a tensor on npu that its parent made: the child has no device memory; ",
              "start it with the 'spawn' start method");
  SentStorage sent;
  sent.device = storage.device().index();
  sent.bytes = storage.nbytes();
  if (storage.nbytes() == 0) return sent;
  storage.mutable_data();  // copies memory that is shared until the first write
  at::DataPtr& pointer = storage._mutable_data_ptr_no_checks();
  const void* const address = pointer.get();
  TORCH_CHECK(pointer.get_deleter() != &free_received, "Attempted to send NPU tensor received from another process; this is not ",
              "currently supported. Consider cloning before sending.");
  collect(Receivers::kLiving);
  const BoundDevice bound(sent.device);
  Outbox& outbox = Outbox::instance();
  const MemoryRange range = [&] {
    const std::lock_guard lock(outbox.mutex);
    const at::DataPtr* const inner = sent_memory_of(pointer);
    return allocation_of(inner == nullptr ? pointer : *inner, storage.nbytes());
  }();
  std::array<char, ACL_IPC_HANDLE_SIZE> key{};
  ACL_CALL(aclrtIpcMemGetExportKey, range.begin, range.bytes, key.data(), key.size(),
           ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION);
  sent.key = key.data();
  sent.offset = static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(range.begin));
  sent.ticket_handle = IpcTickets::own().handle();

  // A queue sends from its own thread, whose current stream is not the program's.
  const NPUStream stream = getCurrentNPUStream();
  if (range.stream != stream && !range.stream.query()) range.stream.synchronize();
  Sent::Message message{};
  if (!stream.query()) {
    message.event.reset(make_event(EventKind::kShared, sent.device));
    record_event(*message.event, stream);
    sent.event = handle_bytes(*message.event);
  }
  const std::lock_guard lock(outbox.mutex);
  sent.ticket = message.ticket = IpcTickets::own().take();
  keep_for_others(outbox, pointer).messages.push_back(std::move(message));
  return sent;
}

c10::Storage receive_storage(const SentStorage& sent) {
  const BoundDevice bound(sent.device);
  auto received = std::make_unique<Received>();
  received->tickets = IpcTickets::open(sent.ticket_handle);
  const NPUStream stream = getCurrentNPUStream();
  received->tickets->hold(sent.ticket);
  received->ticket = sent.ticket;
  try {
    received->mapping = Mapping::open(sent.key, sent.device);
    if (!sent.event.empty()) block_stream(*open_event(sent.event, sent.device), stream);
  } catch (...) {
    received->tickets->release(sent.ticket);  // otherwise the sender keeps the memory until this process ends
    throw;
  }
  void* const address = received->mapping->address() + sent.offset;
  at::DataPtr pointer(address, received.release(), &free_received, npu_device(sent.device));
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), sent.bytes, std::move(pointer), nullptr,
                                               /*resizable=*/false);
}

void drop_sent_storage(const std::string& ticket_handle, uint64_t ticket) { IpcTickets::open(ticket_handle)->release(ticket); }

size_t collect_sent_memory() {
  FreedReceived::instance().release();
  return collect(Receivers::kLivingAndDead);
}

const at::DataPtr* sent_memory_of(const at::DataPtr& pointer) {
  return pointer.get_deleter() == &free_sent ? &static_cast<const Sent*>(pointer.get_context())->memory : nullptr;
}

}  // namespace torch_npu
