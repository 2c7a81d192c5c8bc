// Handles of this library: a client holds one for each tensor, scalar, array, list and executor.
//
//   aclTensor* handle = begin_life(*tensor);                     // the client owns the object
//   const TensorObject* tensor = find<TensorObject>(handle);     // null if the handle is not valid: explain<TensorObject>()
//   TensorObject* tensor = end_life<TensorObject>(handle);       // the same; the caller owns the object and gives it to the pool
//
// A handle is a number in the type of a pointer: a generation counter, the kind of object and the number of its slot. It is never
// dereferenced, so that null, garbage, the handle of a destroyed object and a handle of another kind are all refused, also after
// another object has got the slot. Slots of one kind lie in one array, are reused by pool.h and are never unmapped.
//
// Thread-safe. If several threads end the same life, one of them gets the object and the others get null. The contents of an
// object are not protected: one thread at a time may use them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"

namespace softnpu::ops {

enum class ObjectKind : uint8_t { kTensor, kScalar, kIntArray, kFloatArray, kBoolArray, kTensorList, kScalarList, kExecutor };
inline constexpr size_t kObjectKinds = 8;

struct Slot {
  std::atomic<uint64_t> life{0};  // the handle of the object while it is live, else a number that is not a handle
  Slot* next = nullptr;           // in the list of free slots
};

// Base class of every type of object. `Handle` is its type in the C functions.
template <typename OwnHandle, ObjectKind kOwnKind>
struct ObjectOf : Slot {
  using Handle = OwnHandle;
  static constexpr ObjectKind kKind = kOwnKind;
};

namespace detail {

// Bits of a handle, from the highest: 24 of generation, which is odd for a live object; 8 of kind; 32 of slot.
inline constexpr uint64_t kNextGeneration = uint64_t{1} << 40;
inline constexpr unsigned kKindShift = 32;
inline constexpr uint64_t kFirstKind = 0x21;  // not 0, so that null is not a handle

inline uint64_t number_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

// The slots of one kind. Slots with numbers from `count` on do not exist yet.
struct Slots {
  std::atomic<uint32_t> count{0};
  std::byte* first = nullptr;  // set with the first slot, then constant
  size_t usable = 0;           // bytes of the reserved memory that can be read and written
};
extern std::array<Slots, kObjectKinds> slots;

// Memory for one more slot. Throws std::bad_alloc. One thread at a time per kind.
void* add_memory(ObjectKind kind, size_t bytes);
uint64_t first_life(ObjectKind kind, uint32_t slot);

template <typename T>
[[gnu::always_inline]] inline T* object_at(const typename T::Handle* handle) {
  const Slots& own = slots[size_t(T::kKind)];
  const auto slot = uint32_t(number_of(handle));
  if (slot >= own.count.load(std::memory_order_acquire)) [[unlikely]]
    return nullptr;
  return reinterpret_cast<T*>(own.first + slot * sizeof(T));
}

Status explain(ObjectKind kind, const void* handle, std::string_view argument);

}  // namespace detail

// A new object that is not live. One thread at a time per type.
template <typename T>
T* add_object() {
  detail::Slots& own = detail::slots[size_t(T::kKind)];
  T* object = new (detail::add_memory(T::kKind, sizeof(T))) T;
  const uint32_t slot = own.count.load(std::memory_order_relaxed);
  object->life.store(detail::first_life(T::kKind, slot), std::memory_order_relaxed);
  own.count.store(slot + 1, std::memory_order_release);
  return object;
}

// Begins a life of an object that is not live.
template <typename T>
[[gnu::always_inline]] inline typename T::Handle* begin_life(T& object) {
  const uint64_t life = object.life.load(std::memory_order_relaxed) + detail::kNextGeneration;
  object.life.store(life, std::memory_order_release);
  return reinterpret_cast<typename T::Handle*>(life);
}

// The live object behind `handle`, or null.
template <typename T>
[[gnu::always_inline]] inline T* find(const typename T::Handle* handle) {
  T* object = detail::object_at<T>(handle);
  return object != nullptr && object->life.load(std::memory_order_acquire) == detail::number_of(handle) ? object : nullptr;
}

// Ends the life of the object behind `handle`. Null if it is not live.
template <typename T>
[[gnu::always_inline]] inline T* end_life(const typename T::Handle* handle) {
  T* object = detail::object_at<T>(handle);
  uint64_t life = detail::number_of(handle);
  const bool won =
      object != nullptr && object->life.compare_exchange_strong(life, life + detail::kNextGeneration, std::memory_order_acq_rel,
                                                                std::memory_order_relaxed);
  return won ? object : nullptr;
}

// The reason why find() or end_life() returned null.
template <typename T>
Status explain(const typename T::Handle* handle, std::string_view argument) {
  return detail::explain(T::kKind, handle, argument);
}

}  // namespace softnpu::ops
