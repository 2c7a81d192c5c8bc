// The software device as the cases use it. A call that fails ends the program: there is nothing to measure then.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl.h"
#include "gate.h"
#include "runtime/driver.h"

namespace bench {

// Prints the call, its code and the library's message, and exits, unless `code` is 0.
void require(aclError code, const char* call);
#define REQUIRE_ACL(call) ::bench::require((call), #call)

// The library's private door. Exits if libascendcl is not softnpu's.
const SoftnpuDriver& driver();

// About what an operator's arguments take.
struct Payload {
  unsigned char bytes[64];
};

// What a small operator takes: about a quarter of a microsecond of arithmetic.
void small_work();

constexpr uint64_t kCheap = 0;                      // runs inside the launching call if the stream is idle
constexpr uint64_t kExpensive = uint64_t{1} << 40;  // is always queued

class Stream {
 public:
  Stream() { REQUIRE_ACL(aclrtCreateStream(&handle_)); }
  ~Stream() { REQUIRE_ACL(aclrtDestroyStream(handle_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  aclrtStream get() const { return handle_; }
  void synchronize() { REQUIRE_ACL(aclrtSynchronizeStream(handle_)); }

  // A task that does nothing.
  void launch_empty(uint64_t cost);
  // A queued task that does small_work().
  void launch_small();
  // A task that waits for `gate`; returns when it does.
  void hold(Gate& gate);

 private:
  aclrtStream handle_ = nullptr;
};

class Event {
 public:
  Event() { REQUIRE_ACL(aclrtCreateEventExWithFlag(&handle_, ACL_EVENT_SYNC)); }
  ~Event() { REQUIRE_ACL(aclrtDestroyEvent(handle_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  aclrtEvent get() const { return handle_; }

 private:
  aclrtEvent handle_ = nullptr;
};

enum class MemoryKind { kDevice, kPinned, kPageable };

// Memory that was written once, so that no page of it is new to the host.
class Memory {
 public:
  Memory(MemoryKind kind, size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* get() const { return address_; }

 private:
  const MemoryKind kind_;
  void* address_ = nullptr;
};

}  // namespace bench
