#include "runtime/stream/host_probe.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

const uintptr_t kPageSize = uintptr_t(sysconf(_SC_PAGESIZE));

bool is_known(const ThreadState& state, uintptr_t page) {
  return std::find(state.known_pages.begin(), state.known_pages.end(), page) != state.known_pages.end();
}

}  // namespace

Status check_host_range(const void* address, size_t bytes, const char* argument) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t first = begin & ~(kPageSize - 1);
  const bool wraps = begin + bytes < begin;
  // msync checks every page of the range and has no effect on anonymous memory.
  if (!wraps && msync(reinterpret_cast<void*>(first), begin + bytes - first, MS_ASYNC) == 0) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text("argument '", argument, "': the ", bytes, " bytes at ", address,
                                           " are neither device memory nor mapped host memory")};
}

Status check_host_range_quickly(const void* address, size_t bytes, const char* argument) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t first = begin & ~(kPageSize - 1);
  const uintptr_t last = (begin + bytes - 1) & ~(kPageSize - 1);
  ThreadState& state = thread_state();
  if (first == last && bytes <= kPageSize && is_known(state, first)) [[likely]]
    return {};
  SOFTNPU_RETURN_IF_ERROR(check_host_range(address, bytes, argument));
  state.known_pages[state.next_known_page++ % state.known_pages.size()] = last;
  return {};
}

}  // namespace softnpu
