// Handles: the values that clients hold for streams, events, contexts and graphs.
//
//   Stream* stream = stream_pool().take();                           // a slot
//   const Ref<Stream> ref = stream_pool().publish(*stream);          // the object is live
//   void* handle = StreamPool::handle_of(ref);                       // for the client
//   stream_pool().find(handle);                                      // the object, or null after withdraw(ref)
//
// A handle is a number in a pointer type: a tag, the kind of object, a generation and a slot. It is never dereferenced, so null,
// garbage, a destroyed object's handle and a handle of another kind are all recognised. Objects live in slots that are reused but
// never freed: a call that races with the destruction of an object finds a closed object, not freed memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/futex.h"
#include "runtime/base/status.h"

namespace softnpu {

enum class HandleKind : uint32_t { kContext = 1, kStream = 2, kEvent = 3, kGraph = 4, kTaskGroup = 5 };
const char* name_of(HandleKind kind);
// Even, and different for every kind, slot and process, so that a number that a program invents is very unlikely to be a valid
// handle.
uint32_t first_generation(HandleKind kind, uint32_t slot);

class Handle {
 public:
  static constexpr uint64_t kTag = 0xA5C;  // the top 12 bits; no address on a supported machine begins with them
  static constexpr uint32_t kGenerationMask = 0xFFFFFF;

  Handle(HandleKind kind, uint32_t generation, uint32_t slot)
      : bits_(kTag << 52 | uint64_t(kind) << 48 | uint64_t(generation & kGenerationMask) << 24 | slot) {}
  explicit Handle(const void* handle) : bits_(reinterpret_cast<uint64_t>(handle)) {}

  bool is_tagged() const { return bits_ >> 52 == kTag; }
  HandleKind kind() const { return HandleKind(bits_ >> 48 & 0xF); }
  bool is(HandleKind kind) const { return bits_ >> 48 == (kTag << 4 | uint64_t(kind)); }
  uint32_t generation() const { return uint32_t(bits_ >> 24) & kGenerationMask; }
  uint32_t slot() const { return uint32_t(bits_) & 0xFFFFFF; }
  void* get() const { return reinterpret_cast<void*>(bits_); }

 private:
  uint64_t bits_;
};

// Base class of every object that has a handle. The generation counter is odd while the object is live.
class Slot {
 public:
  bool is_live(uint32_t generation) const { return generation_.load(std::memory_order_acquire) == generation; }
  bool is_live() const { return generation_.load(std::memory_order_acquire) & 1; }
  uint32_t generation() const { return generation_.load(std::memory_order_acquire); }
  uint32_t slot() const { return slot_; }

 private:
  template <typename T, HandleKind kKind>
  friend class SlotPool;
  std::atomic<uint32_t> generation_{0};
  uint32_t slot_ = 0;
};

// A pointer to an object together with its generation. Slots are reused, so a pointer alone may later mean another object: code
// that keeps a pointer in a list, or longer than the call that found it, keeps a Ref.
template <typename T>
struct Ref {
  T* object = nullptr;
  uint32_t generation = 0;

  Ref() = default;
  Ref(T& named, uint32_t its_generation) : object(&named), generation(its_generation) {}
  // With the present generation. If the object is not live, the Ref never will be.
  explicit Ref(T& named) : Ref(named, named.generation()) {
    if (!(generation & 1)) generation = kNever;
  }

  bool is_live() const { return object != nullptr && object->is_live(generation); }
  T* operator->() const { return object; }
  T& operator*() const { return *object; }

 private:
  static constexpr uint32_t kNever = ~uint32_t(Handle::kGenerationMask);
};

// All objects of one kind in the process. Thread-safe; find() takes no lock.
template <typename T, HandleKind kKind>
class SlotPool {
 public:
  // Returns an object that is not live; the caller sets it up and calls publish(). Null if all slots are in use.
  T* take() {
    std::lock_guard guard(lock_);
    if (!free_.empty()) {
      T* object = free_.back();
      free_.pop_back();
      return object;
    }
    const uint32_t slot = count_.load(std::memory_order_relaxed);
    if (slot == kChunks * kChunkSize) return nullptr;
    auto& chunk = chunks_[slot / kChunkSize];
    if (chunk == nullptr) chunk = std::make_unique<std::array<T, kChunkSize>>();
    T* object = &(*chunk)[slot % kChunkSize];
    object->slot_ = slot;
    object->generation_.store(first_generation(kKind, slot) & Handle::kGenerationMask, std::memory_order_relaxed);
    count_.store(slot + 1, std::memory_order_release);
    return object;
  }
  // Makes the object live. The result has its new generation, even if another thread has withdrawn the object since.
  Ref<T> publish(T& object) {
    const uint32_t generation = (object.generation_.load(std::memory_order_relaxed) + 1) & Handle::kGenerationMask;
    object.generation_.store(generation, std::memory_order_release);
    return {object, generation};
  }
  // Ends the life of the object: find() no longer returns it. It keeps its slot until give_back(). Returns false if that
  // generation has ended already: if several threads destroy one object, one of them gets true.
  bool withdraw(const Ref<T>& ref) {
    if (!(ref.generation & 1)) return false;
    uint32_t expected = ref.generation;
    return ref.object->generation_.compare_exchange_strong(expected, (ref.generation + 1) & Handle::kGenerationMask,
                                                           std::memory_order_acq_rel);
  }
  void give_back(T& object) {
    std::lock_guard guard(lock_);
    free_.push_back(&object);
  }

  static void* handle_of(const Ref<T>& ref) { return Handle(kKind, ref.generation, ref.object->slot()).get(); }

  // The live object behind `handle`, or null.
  T* find(const void* pointer) {
    const Handle handle(pointer);
    if (!handle.is(kKind) || handle.slot() >= count_.load(std::memory_order_acquire)) [[unlikely]]
      return nullptr;
    T& object = at(handle.slot());
    return object.is_live(handle.generation()) ? &object : nullptr;
  }

  // The reason why find() returned null.
  Status explain(const void* pointer, const char* argument) const {
    const Handle handle(pointer);
    if (pointer == nullptr) return {ACL_ERROR_INVALID_PARAM, text("argument '", argument, "' is null; pass a ", name_of(kKind))};
    if (handle.is(kKind) && handle.slot() < count_.load(std::memory_order_acquire)) {
      return {ACL_ERROR_RT_INVALID_HANDLE,
              text("argument '", argument, "' is a ", name_of(kKind), " that was destroyed (", pointer, ")")};
    }
    if (handle.is_tagged() && handle.kind() != kKind) {
      return {ACL_ERROR_RT_INVALID_HANDLE,
              text("argument '", argument, "' is a ", name_of(handle.kind()), ", but a ", name_of(kKind), " is needed")};
    }
    return {ACL_ERROR_RT_INVALID_HANDLE,
            text("argument '", argument, "' (", pointer, ") is not a ", name_of(kKind), " of this device library")};
  }

  // Calls `visit` with every slot that was ever used, including objects that are being closed or are free.
  template <typename Visit>
  void for_each_slot(Visit visit) {
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t slot = 0; slot < count; ++slot) visit(at(slot));
  }
  // Calls `visit` with a Ref of every object that is live now.
  template <typename Visit>
  void for_each_live(Visit visit) {
    for_each_slot([&](T& object) {
      if (const Ref<T> ref(object); ref.is_live()) visit(ref);
    });
  }

 private:
  static constexpr uint32_t kChunkSize = 64;
  static constexpr uint32_t kChunks = 4096;

  T& at(uint32_t slot) { return (*chunks_[slot / kChunkSize])[slot % kChunkSize]; }

  Lock lock_;
  std::vector<T*> free_;
  std::atomic<uint32_t> count_{0};
  std::array<std::unique_ptr<std::array<T, kChunkSize>>, kChunks> chunks_;
};

}  // namespace softnpu
