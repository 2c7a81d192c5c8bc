// The model of the device in the fuzz test: which handles and addresses are valid. It also picks valid and invalid arguments.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <sstream>

#include "testing/buffers.h"

namespace softnpu::test {

constexpr size_t kPage = 4096;
constexpr size_t kHostBytes = 16 * kPage;
constexpr size_t kClearlyTooMuch = size_t{1} << 20;  // past the end of every block of this test

// The expected result of a call. kEither: the model does not know.
enum class Expected { kSuccess, kFailure, kEither };

// The expected result of a call with two arguments: one invalid argument makes it fail.
inline Expected both(Expected a, Expected b) {
  if (a == Expected::kFailure || b == Expected::kFailure) return Expected::kFailure;
  return a == Expected::kEither || b == Expected::kEither ? Expected::kEither : Expected::kSuccess;
}
inline Expected success_if(bool is_valid) { return is_valid ? Expected::kSuccess : Expected::kFailure; }

struct ContextModel {
  void* handle = nullptr;
  int32_t device = 0;
  bool is_primary = false;
};

struct StreamModel {
  void* handle = nullptr;
  void* context = nullptr;
};

struct EventModel {
  void* handle = nullptr;
  bool is_extended = true;
  uint32_t flags = 0;
};

// An argument and the result that a call with it must have.
struct Pick {
  void* value = nullptr;
  Expected expected = Expected::kFailure;
};

enum class Memory { kDevice, kPinned, kPageable, kNone };

struct Range {
  void* address = nullptr;
  size_t bytes = 0;
  Memory memory = Memory::kNone;
  Expected expected = Expected::kFailure;
};

inline void* pointer(uintptr_t number) { return reinterpret_cast<void*>(number); }

// The devices of one thread. `home` is current and is never reset; `other` is reset.
struct FuzzDevices {
  int32_t home = 0;
  int32_t other = 1;
};

// One thread uses a model. Several threads may run at once if each has its own devices.
class FuzzModel {
 protected:
  FuzzModel(uint64_t seed, FuzzDevices devices)
      : random_(static_cast<uint32_t>(seed * 2654435761U + 1)), devices_{devices.home, devices.other} {
    void* primary = nullptr;
    EXPECT_ACL(aclrtGetCurrentContext(&primary));
    contexts_.push_back({primary, devices_[0], true});
    current_ = primary;
    host_.resize(2 * kHostBytes + kPage);
  }

  // Random choices

  size_t below(size_t bound) { return random_() % bound; }
  bool chance(size_t percent) { return below(100) < percent; }
  template <typename T>
  T& any(std::vector<T>& items) {
    return items[below(items.size())];
  }

  void* garbage() {
    constexpr uintptr_t kGarbage[] = {1,
                                      0x10,
                                      0xFF8,
                                      0xDEADBEEFDEADBEEF,
                                      UINTPTR_MAX - 10,
                                      uintptr_t{1} << 63,
                                      0xA5C0000000000000,
                                      0xA5C2000003FFFFFF,
                                      0xA5C3FFFFFF000001};
    return pointer(kGarbage[below(std::size(kGarbage))]);
  }

  // Arguments

  // Mostly the result of `live`, else a handle that every function refuses.
  template <typename Live>
  Pick handle(bool has_live, std::vector<void*>& wrong_kind, const Live& live) {
    if (has_live && chance(75)) return live();
    if (!destroyed_.empty() && chance(40)) return {any(destroyed_), Expected::kFailure};
    if (!wrong_kind.empty() && chance(50)) return {any(wrong_kind), Expected::kFailure};
    return {chance(50) ? nullptr : garbage(), Expected::kFailure};
  }

  template <typename Model>
  static std::vector<void*> handles_of(const std::vector<Model>& models) {
    std::vector<void*> handles;
    for (const Model& model : models) handles.push_back(model.handle);
    return handles;
  }

  // For functions that take null as the default stream.
  Pick stream_or_default() {
    if (chance(15)) return {nullptr, success_if(current_ != nullptr)};
    const Pick pick = stream();
    return pick.value == nullptr ? Pick{nullptr, success_if(current_ != nullptr)} : pick;
  }
  // For functions without a stream: a device may or may not require a current context.
  Expected needs_no_stream() const { return current_ != nullptr ? Expected::kSuccess : Expected::kEither; }

  Pick stream() {
    std::vector<void*> wrong = handles_of(events_);
    wrong.push_back(contexts_[0].handle);
    return handle(!streams_.empty(), wrong, [&] {
      const StreamModel& model = any(streams_);
      return Pick{model.handle, success_if(model.context == current_)};
    });
  }
  Pick event() {
    std::vector<void*> wrong = handles_of(streams_);
    return handle(!events_.empty(), wrong, [&] { return Pick{any(events_).handle, Expected::kSuccess}; });
  }
  Pick context() {
    std::vector<void*> wrong = handles_of(streams_);
    return handle(true, wrong, [&] { return Pick{any(contexts_).handle, Expected::kSuccess}; });
  }
  const EventModel* find_event(void* handle) const {
    const auto found =
        std::find_if(events_.begin(), events_.end(), [&](const EventModel& event) { return event.handle == handle; });
    return found == events_.end() ? nullptr : &*found;
  }

  size_t size() {
    constexpr size_t kSizes[] = {1, 31, 32, 512, 1000, 4096, 32768, 40'000, 200'000};
    return kSizes[below(std::size(kSizes))];
  }
  size_t bad_size() {
    constexpr size_t kSizes[] = {0, SIZE_MAX, SIZE_MAX - 31, SIZE_MAX / 2, size_t{1} << 62};
    return kSizes[below(std::size(kSizes))];
  }

  Range inside(uintptr_t base, size_t bytes, Memory memory) {
    const size_t offset = below(bytes);
    if (chance(20)) return {pointer(base + offset), kClearlyTooMuch, memory, Expected::kFailure};
    return {pointer(base + offset), 1 + below(bytes - offset), memory, Expected::kSuccess};
  }
  Range device_range() {
    if (!blocks_.empty() && chance(85)) {
      const auto& [base, bytes] = *std::next(blocks_.begin(), static_cast<ptrdiff_t>(below(blocks_.size())));
      return inside(base, bytes, Memory::kDevice);
    }
    if (!freed_.empty() && chance(50)) return {pointer(any(freed_)), 16, Memory::kDevice, Expected::kEither};
    return {chance(30) ? nullptr : garbage(), 64, Memory::kNone, Expected::kFailure};
  }
  Range range() {
    if (chance(50)) return device_range();
    if (!pinned_.empty() && chance(50)) {
      const auto& [base, bytes] = *std::next(pinned_.begin(), static_cast<ptrdiff_t>(below(pinned_.size())));
      return inside(base, bytes, Memory::kPinned);
    }
    if (chance(15)) return {garbage(), 64, Memory::kNone, Expected::kFailure};
    const size_t offset = below(kHostBytes / 2);
    return {host_.data() + offset, 1 + below(kHostBytes / 2), Memory::kPageable, Expected::kSuccess};
  }

  // Checks

  template <typename... Parts>
  bool check(Expected expected, aclError code, const Parts&... call) {
    std::ostringstream text;
    (text << ... << call);
    calls_ << "  " << text.str() << " -> " << code << "\n";
    if (code == ACL_SUCCESS) {
      EXPECT_NE(expected, Expected::kFailure) << text.str() << " succeeded";
      return true;
    }
    EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), code) << text.str();
    const std::string message = recent_error();
    EXPECT_NE(message, "") << text.str() << " failed without a text";
    EXPECT_NE(expected, Expected::kSuccess) << text.str() << " failed: " << message;
    return false;
  }

  // Changes of the model

  // Removes the context and its streams, and the memory of its device if it was the last context there.
  void forget_context(size_t index) {
    const ContextModel gone = contexts_[index];
    contexts_.erase(contexts_.begin() + static_cast<ptrdiff_t>(index));
    destroyed_.push_back(gone.handle);
    std::erase_if(streams_, [&](const StreamModel& stream) {
      if (stream.context != gone.handle) return false;
      destroyed_.push_back(stream.handle);
      return true;
    });
    if (current_ == gone.handle) current_ = nullptr;
    const bool is_used =
        std::any_of(contexts_.begin(), contexts_.end(), [&](const auto& one) { return one.device == gone.device; });
    if (is_used) return;
    std::erase_if(blocks_, [&](const auto& block) {
      aclrtPtrAttributes attributes;
      if (aclrtPointerGetAttributes(pointer(block.first), &attributes) == ACL_SUCCESS) return false;
      recent_error();
      freed_.push_back(block.first);
      return true;
    });
  }

  // Waits for all work of every context. The current context does not change.
  void drain() {
    for (const ContextModel& one : contexts_) {
      EXPECT_ACL(aclrtSetCurrentContext(one.handle));
      EXPECT_ACL(aclrtSynchronizeDevice());
    }
    if (current_ == nullptr) return lose_context();
    EXPECT_ACL(aclrtSetCurrentContext(current_));
  }

  // Called before a call that touches memory.
  void settle() {
    if (!kRacesOnMemory) drain();
  }

  // Leaves the thread with a destroyed current context.
  void lose_context() {
    void* made = nullptr;
    EXPECT_ACL(aclrtCreateContext(&made, devices_[0]));
    EXPECT_ACL(aclrtDestroyContext(made));
  }

  // The second half of the host memory; copies use the first half.
  void* registrable() { return pointer((reinterpret_cast<uintptr_t>(host_.data()) + kHostBytes + kPage - 1) / kPage * kPage); }

  std::minstd_rand random_;
  int32_t devices_[2];
  std::ostringstream calls_;
  std::vector<ContextModel> contexts_;  // the first one belongs to the test
  void* current_ = nullptr;             // null: the thread's context was destroyed
  int retains_[2] = {0, 0};             // aclrtSetDevice calls of this sequence, by index of devices_
  std::vector<StreamModel> streams_;
  std::vector<EventModel> events_;
  std::vector<void*> destroyed_;        // handles of any kind
  std::map<uintptr_t, size_t> blocks_;  // live device memory
  std::vector<uintptr_t> freed_;        // may have been allocated again
  std::map<uintptr_t, size_t> pinned_;
  std::vector<std::byte> host_;
  bool is_registered_ = false;
  bool is_alone_ = false;                     // no other thread uses the library
  static inline std::atomic<int> called_{0};  // static: queued tasks may outlive the model
};

}  // namespace softnpu::test
