// Random calls of the fuzz test that allocate, free, copy and fill memory.
#pragma once

#include "testing/fuzz_stream_calls.h"

namespace softnpu::test {

class MemoryCalls : protected StreamCalls {
 protected:
  using StreamCalls::StreamCalls;

  void allocate() {
    const bool is_bad = chance(10);
    const size_t bytes = is_bad ? bad_size() : size();
    void* block = nullptr;
    const Expected expected = success_if(!is_bad && current_ != nullptr);
    if (check(expected, aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc ", bytes)) {
      blocks_[reinterpret_cast<uintptr_t>(block)] = bytes;
    }
  }

  void free() {
    if (!blocks_.empty() && chance(60)) {
      const auto block = std::next(blocks_.begin(), static_cast<ptrdiff_t>(below(blocks_.size())));
      if (block->second > 1 && chance(20)) {
        check(Expected::kFailure, aclrtFree(pointer(block->first + 1)), "aclrtFree inside ", pointer(block->first));
        return;
      }
      check(Expected::kSuccess, aclrtFree(pointer(block->first)), "aclrtFree ", pointer(block->first));
      freed_.push_back(block->first);
      blocks_.erase(block);
      return;
    }
    if (!freed_.empty() && chance(50)) {
      const uintptr_t again = any(freed_);
      if (blocks_.contains(again)) return;
      check(Expected::kFailure, aclrtFree(pointer(again)), "aclrtFree again ", pointer(again));
      return;
    }
    void* const bad = chance(30) ? host_.data() : chance(30) ? nullptr : garbage();
    check(Expected::kFailure, aclrtFree(bad), "aclrtFree ", bad);
  }

  void allocate_host() {
    const bool is_bad = chance(10);
    const size_t bytes = is_bad ? bad_size() : size();
    void* block = nullptr;
    if (check(success_if(!is_bad), aclrtMallocHost(&block, bytes), "aclrtMallocHost ", bytes)) {
      pinned_[reinterpret_cast<uintptr_t>(block)] = bytes;
    }
  }

  void free_host() {
    if (pinned_.empty() || chance(30)) {
      void* const bad = chance(30) ? host_.data() : chance(30) ? nullptr : garbage();
      check(Expected::kFailure, aclrtFreeHost(bad), "aclrtFreeHost ", bad);
      return;
    }
    drain();  // running copies may use the memory
    const uintptr_t block = pinned_.begin()->first;
    check(Expected::kSuccess, aclrtFreeHost(pointer(block)), "aclrtFreeHost ", pointer(block));
    // Another thread may have got the same address in the meantime.
    if (is_alone_) check(Expected::kFailure, aclrtFreeHost(pointer(block)), "aclrtFreeHost again ", pointer(block));
    pinned_.erase(pinned_.begin());
  }

  void register_host() {
    if (is_registered_) {
      check(Expected::kSuccess, aclrtHostUnregister(registrable()), "aclrtHostUnregister");
      check(Expected::kFailure, aclrtHostUnregister(registrable()), "aclrtHostUnregister again");
      is_registered_ = false;
      return;
    }
    check(Expected::kFailure, aclrtHostRegisterV2(at(registrable(), 1), kPage, 0), "aclrtHostRegisterV2 unaligned");
    check(Expected::kFailure, aclrtHostRegisterV2(registrable(), bad_size() | 0x8000000000000000, 0),
          "aclrtHostRegisterV2 too large");
    is_registered_ = check(Expected::kSuccess, aclrtHostRegisterV2(registrable(), kPage, 0), "aclrtHostRegisterV2");
  }

  Expected expected_of_copy(const Range& to, const Range& from, size_t bytes) const {
    const auto begin = [](const Range& range) { return reinterpret_cast<uintptr_t>(range.address); };
    const bool overlaps = begin(to) < begin(from) + bytes && begin(from) < begin(to) + bytes;
    return both(both(to.expected, from.expected), success_if(!overlaps));
  }

  void copy() {
    settle();
    const Range to = range();
    const Range from = range();
    size_t bytes = std::max(to.bytes, from.bytes);
    if (to.expected != Expected::kFailure && from.expected != Expected::kFailure) bytes = std::min(to.bytes, from.bytes);
    const bool has_room = chance(90);
    const size_t room = has_room ? bytes : bytes - 1;
    Expected expected = both(both(expected_of_copy(to, from, bytes), success_if(has_room)), needs_no_stream());
    const auto kind = static_cast<aclrtMemcpyKind>(below(9));
    if (chance(40)) {
      check(expected, aclrtMemcpy(to.address, room, from.address, bytes, kind), "aclrtMemcpy ", to.address, " ", from.address,
            " ", bytes);
      return;
    }
    const Pick where = stream_or_default();
    expected = both(both(expected, where.expected), expected_of_kind(to, from, kind));
    check(expected, aclrtMemcpyAsync(to.address, room, from.address, bytes, kind, where.value), "aclrtMemcpyAsync ", to.address,
          " ", from.address, " ", bytes, " kind ", kind, " on ", where.value);
  }

  // The kind of an asynchronous copy must match the addresses. The model does not know whether both are on one device.
  static Expected expected_of_kind(const Range& to, const Range& from, aclrtMemcpyKind kind) {
    const bool to_device = to.memory == Memory::kDevice;
    const bool from_device = from.memory == Memory::kDevice;
    switch (kind) {
      case ACL_MEMCPY_HOST_TO_DEVICE:
      case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
        return success_if(to_device && !from_device);
      case ACL_MEMCPY_DEVICE_TO_HOST:
        return success_if(!to_device && from_device);
      case ACL_MEMCPY_DEVICE_TO_DEVICE:
        return success_if(to_device && from_device);
      case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
      case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
        return to_device && from_device ? Expected::kEither : Expected::kFailure;
      case ACL_MEMCPY_DEFAULT:
        return success_if(to_device || from_device);
      default:
        return Expected::kFailure;
    }
  }

  void copy_rows() {
    settle();
    const Range to = device_range();
    const size_t width = 1 + below(64);
    const size_t pitch = below(100);
    const size_t height = chance(10) ? SIZE_MAX : below(20);
    const bool is_impossible = to.memory == Memory::kNone || height == 0 || height == SIZE_MAX || (height > 1 && pitch < width);
    check(is_impossible ? Expected::kFailure : Expected::kEither,
          aclrtMemcpy2d(to.address, pitch, host_.data(), pitch, width, height, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy2d ",
          to.address, " ", pitch, " ", width, "x", height);
  }

  void fill() {
    settle();
    const Range to = device_range();
    const Pick where = stream_or_default();
    const bool has_room = chance(90);
    const size_t room = has_room ? to.bytes : to.bytes - 1;
    const Expected expected = both(both(to.expected, success_if(has_room)), needs_no_stream());
    if (chance(50)) {
      check(expected, aclrtMemset(to.address, room, 5, to.bytes), "aclrtMemset ", to.address, " ", to.bytes);
    } else {
      check(both(expected, where.expected), aclrtMemsetAsync(to.address, room, 5, to.bytes, where.value), "aclrtMemsetAsync ",
            to.address, " ", to.bytes, " on ", where.value);
    }
  }

  void ask_memory() {
    const Range range = device_range();
    aclrtPtrAttributes attributes;
    const bool is_live = range.memory == Memory::kDevice && range.expected != Expected::kEither;
    check(is_live                    ? Expected::kSuccess
          : range.address == nullptr ? Expected::kFailure
                                     : Expected::kEither,
          aclrtPointerGetAttributes(range.address, &attributes), "aclrtPointerGetAttributes ", range.address);
    size_t free = 0;
    size_t total = 0;
    check(success_if(current_ != nullptr), aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), "aclrtGetMemInfo");
    check(Expected::kFailure, aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &total), "aclrtGetMemInfo null");
  }

  void use_values() {
    settle();
    const Range to = device_range();
    const Pick where = stream_or_default();
    const bool is_possible = reinterpret_cast<uintptr_t>(to.address) % 8 == 0 && to.memory == Memory::kDevice;
    const Expected expected = both(where.expected, is_possible ? Expected::kEither : Expected::kFailure);
    check(expected, aclrtValueWrite(to.address, 1, 0, where.value), "aclrtValueWrite ", to.address, " on ", where.value);
    check(both(both(to.expected, where.expected), Expected::kEither),
          aclrtReduceAsync(to.address, to.address, to.bytes, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_INT8, where.value, nullptr),
          "aclrtReduceAsync ", to.address);
  }
};

}  // namespace softnpu::test
