// Free objects for reuse: an aclnn call allocates nothing once the pool is warm.
//
//   TensorObject* tensor = Pool<TensorObject>::take();   // not live; the contents are those of its last use
//   Pool<TensorObject>::give(tensor);
//
// Every thread keeps a few objects. A shared list balances threads that take with threads that give: phase one and phase two may
// run on two threads. Objects are never freed, because a client may use an old handle at any time (handle.h). Thread-safe.
#pragma once

#include <pthread.h>

#include <array>
#include <mutex>
#include <tuple>

#include "ops/objects/handle.h"
#include "ops/objects/recent_allocations.h"

namespace softnpu::ops {

struct TensorObject;
struct ScalarObject;
struct IntArrayObject;
struct FloatArrayObject;
struct BoolArrayObject;
struct TensorListObject;
struct ScalarListObject;
struct Executor;
class AliasTensors;

inline constexpr int kKeptPerThread = 32;

template <typename T>
struct Magazine {
  std::array<T*, kKeptPerThread> items;
  int count = 0;
};

// The data of one thread. Only this thread uses it.
struct ThreadCache {
  std::tuple<Magazine<TensorObject>, Magazine<ScalarObject>, Magazine<IntArrayObject>, Magazine<FloatArrayObject>,
             Magazine<BoolArrayObject>, Magazine<TensorListObject>, Magazine<ScalarListObject>, Magazine<Executor>>
      magazines;
  AliasTensors* aliases = nullptr;  // owned; see alias.h
  RecentAllocations recent_allocations;
};

// One pointer: a library that is loaded after torch gets little static TLS.
extern constinit thread_local ThreadCache* current_cache __attribute__((tls_model("initial-exec")));
ThreadCache& make_thread_cache();

inline ThreadCache& thread_cache() {
  if (current_cache == nullptr) [[unlikely]]
    return make_thread_cache();
  return *current_cache;
}

template <typename T>
class Pool {
 public:
  static T* take(ThreadCache& cache = thread_cache()) {
    Magazine<T>& magazine = std::get<Magazine<T>>(cache.magazines);
    if (magazine.count == 0) [[unlikely]]
      refill(magazine);
    return magazine.items[--magazine.count];
  }

  static void give(T* item) {
    Magazine<T>& magazine = std::get<Magazine<T>>(thread_cache().magazines);
    if (magazine.count == kKeptPerThread) [[unlikely]]
      drain(magazine, kKeptPerThread / 2);
    magazine.items[magazine.count++] = item;
  }

  // Moves all but `keep` objects to the shared list.
  [[gnu::noinline]] static void drain(Magazine<T>& magazine, int keep) {
    const std::lock_guard lock(shared.mutex);
    while (magazine.count > keep) {
      T* item = magazine.items[--magazine.count];
      item->next = shared.first;
      shared.first = item;
    }
  }

 private:
  struct Shared {
    std::mutex mutex;
    Slot* first = nullptr;
  };
  static constinit inline Shared shared;

  [[gnu::noinline]] static void refill(Magazine<T>& magazine) {
    const std::lock_guard lock(shared.mutex);
    while (shared.first != nullptr && magazine.count < kKeptPerThread / 2) {
      magazine.items[magazine.count++] = static_cast<T*>(shared.first);
      shared.first = shared.first->next;
    }
    if (magazine.count == 0) magazine.items[magazine.count++] = add_object<T>();
  }
};

}  // namespace softnpu::ops
