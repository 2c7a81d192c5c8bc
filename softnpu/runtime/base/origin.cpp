#include "runtime/base/origin.h"

#include <atomic>

namespace softnpu {
namespace {

using Origin = int (*)(char* text, size_t bytes);

std::atomic<Origin> g_origin{nullptr};
std::atomic<unsigned> g_reports{0};

}  // namespace

std::string client_origin(unsigned reports) {
  const Origin ask = g_origin.load(std::memory_order_acquire);
  if (ask == nullptr || !(g_reports.load(std::memory_order_relaxed) & reports)) return {};
  char line[1024];
  line[0] = '\0';
  if (ask(line, sizeof line) == 0) return {};
  line[sizeof line - 1] = '\0';
  return line;
}

}  // namespace softnpu

void softnpuSetOrigin(int (*origin)(char* text, size_t bytes), unsigned reports) {
  softnpu::g_reports.store(reports, std::memory_order_relaxed);
  softnpu::g_origin.store(origin, std::memory_order_release);
}
