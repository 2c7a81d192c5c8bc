// Handles: what a client holds for a stream, an event or a context.
//
// A handle is a number dressed as a pointer: a tag, the kind of object, a generation and a slot. It is never dereferenced, so
// null, garbage, a destroyed object's handle and a handle of another kind are all recognised. Objects live in slots that are
// reused but never returned to the heap: a call that races with destroy() meets an object that is closed, not freed memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/futex.h"
#include "runtime/status.h"

namespace softnpu {

enum class HandleKind : uint32_t { kContext = 1, kStream = 2, kEvent = 3, kGraph = 4, kTaskGroup = 5 };
const char* name_of(HandleKind kind);
// Even, and different for every kind, every slot and every process: a number that a program made up is hardly ever a handle by
// accident.
uint32_t first_generation(HandleKind kind, uint32_t slot);

class Handle {
 public:
  static constexpr uint64_t kTag = 0xA5C;  // in the top 12 bits: no valid address on any supported machine starts like this
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

// Base of every object that has a handle. A slot is live while its generation is odd.
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

// All objects of one kind in the process. Thread-safe; find() takes no lock.
template <typename T, HandleKind kKind>
class SlotPool {
 public:
  // An object that is not yet live: set it up, then publish() it.
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
  void publish(T& object) { advance(object); }
  // No handle finds the object any more. It keeps its slot until give_back().
  // False if somebody else was first: of several threads that destroy one object, one wins.
  bool withdraw(T& object, uint32_t generation) {
    uint32_t expected = generation;
    return object.generation_.compare_exchange_strong(expected, (generation + 1) & Handle::kGenerationMask,
                                                      std::memory_order_acq_rel);
  }
  void give_back(T& object) {
    std::lock_guard guard(lock_);
    free_.push_back(&object);
  }

  static void* handle_of(const T& object) { return Handle(kKind, object.generation(), object.slot()).get(); }

  // The live object behind `handle`, or null.
  T* find(const void* pointer) {
    const Handle handle(pointer);
    if (!handle.is(kKind) || handle.slot() >= count_.load(std::memory_order_acquire)) [[unlikely]]
      return nullptr;
    T& object = at(handle.slot());
    return object.is_live(handle.generation()) ? &object : nullptr;
  }

  // Why find() gave null.
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

  // Calls `visit` for every object that is live now.
  template <typename Visit>
  void for_each_live(Visit visit) {
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t slot = 0; slot < count; ++slot) {
      if (T& object = at(slot); object.is_live()) visit(object);
    }
  }

 private:
  static constexpr uint32_t kChunkSize = 64;
  static constexpr uint32_t kChunks = 4096;

  T& at(uint32_t slot) { return (*chunks_[slot / kChunkSize])[slot % kChunkSize]; }
  void advance(T& object) {
    object.generation_.store((object.generation_.load(std::memory_order_relaxed) + 1) & Handle::kGenerationMask,
                             std::memory_order_release);
  }

  Lock lock_;
  std::vector<T*> free_;
  std::atomic<uint32_t> count_{0};
  std::array<std::unique_ptr<std::array<T, kChunkSize>>, kChunks> chunks_;
};

}  // namespace softnpu
