// Free objects, kept for the next taker: a warm aclnn call allocates nothing.
//
//   aclTensor* tensor = Pool<aclTensor>::take();   // as its last owner left it
//   Pool<aclTensor>::give(tensor);
//
// Every thread keeps a few. What one thread takes and another gives back (phase one and phase two may run on two threads) travels
// through a shared list; what that list cannot hold is deleted. Thread-safe.
#pragma once

#include <pthread.h>

#include <array>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "ops/known_memory.h"

struct aclTensor;
struct aclScalar;
struct aclIntArray;
struct aclFloatArray;
struct aclBoolArray;
struct aclTensorList;
struct aclScalarList;
struct aclOpExecutor;

namespace softnpu::ops {

class AliasTensors;

inline constexpr int kKeptPerThread = 32;
inline constexpr size_t kKeptShared = 1024;

template <typename T>
struct Magazine {
  std::array<T*, kKeptPerThread> items;
  int count = 0;
};

// What a thread keeps for this library; only the thread itself touches it.
struct ThreadCache {
  std::tuple<Magazine<aclTensor>, Magazine<aclScalar>, Magazine<aclIntArray>, Magazine<aclFloatArray>, Magazine<aclBoolArray>,
             Magazine<aclTensorList>, Magazine<aclScalarList>, Magazine<aclOpExecutor>>
      magazines;
  AliasTensors* aliases = nullptr;  // owned; see alias.h
  KnownMemory known_memory;
};

// One word of static TLS, all that a library loaded after torch may take.
extern thread_local ThreadCache* current_cache __attribute__((tls_model("initial-exec")));
ThreadCache& make_thread_cache();

inline ThreadCache& thread_cache() {
  if (current_cache == nullptr) [[unlikely]]
    return make_thread_cache();
  return *current_cache;
}

template <typename T>
class Pool {
 public:
  static T* take() {
    Magazine<T>& magazine = std::get<Magazine<T>>(thread_cache().magazines);
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

  // Hands all but `keep` objects to the shared list.
  static void drain(Magazine<T>& magazine, int keep) {
    Shared& shared = Pool::shared();
    const std::lock_guard lock(shared.mutex);
    while (magazine.count > keep) {
      T* item = magazine.items[--magazine.count];
      if (shared.items.size() < kKeptShared) {
        shared.items.push_back(item);
      } else {
        delete item;
      }
    }
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::vector<T*> items;
  };

  static Shared& shared() {
    static Shared* const shared = [] {
      auto* made = new Shared;
      made->items.reserve(kKeptShared);
      return made;
    }();
    return *shared;
  }

  static void refill(Magazine<T>& magazine) {
    Shared& shared = Pool::shared();
    {
      const std::lock_guard lock(shared.mutex);
      while (!shared.items.empty() && magazine.count < kKeptPerThread / 2) {
        magazine.items[magazine.count++] = shared.items.back();
        shared.items.pop_back();
      }
    }
    if (magazine.count == 0) magazine.items[magazine.count++] = new T;
  }
};

}  // namespace softnpu::ops
