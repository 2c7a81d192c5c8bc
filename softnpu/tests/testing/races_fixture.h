// Helpers for tests of the race check (runtime/checks/races.h): tasks that touch memory, and the reports.
//
//   write(first);
//   write(second, 100, 200);                     // 200 bytes at offset 100 of `buffer`
//   EXPECT_EQ(count_of(reports(), "\n"), 1u);    // one line per race
#pragma once

#include <dlfcn.h>

#include <regex>

#include "runtime/softnpu.h"
#include "testing/buffers.h"

namespace softnpu::test {

struct Touch {
  const uint8_t* address;
  size_t bytes;
  uint32_t flags;
};

constexpr SoftnpuTaskKind touching(const char* name) {
  return {.name = name,
          .run = [](void*, char*) { return aclError(ACL_SUCCESS); },
          .release = nullptr,
          .ready = nullptr,
          .flags = 0,
          .visit =
              [](const void* payload, SoftnpuAccessVisitor visitor, void* context) {
                const auto& touch = *static_cast<const Touch*>(payload);
                visitor(context, touch.address, touch.bytes, touch.flags);
              }};
}
inline constexpr SoftnpuTaskKind kReader = touching("reader");
inline constexpr SoftnpuTaskKind kWriter = touching("writer");

template <typename Function>
Function* find_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

inline size_t count_of(const std::string& text, const std::string& words) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++count;
  return count;
}

inline ::testing::AssertionResult says(const std::string& report, const std::string& pattern) {
  if (std::regex_search(report, std::regex(pattern))) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << report << "' does not match '" << pattern << "'";
}

inline std::string id_of(aclrtStream stream) {
  int32_t id = -1;
  EXPECT_ACL(aclrtStreamGetId(stream, &id));
  return "stream " + std::to_string(id);
}

// Runs in a child process with SOFTNPU_RACE_CHECK=report.
class ChildRaces : public AclFixture {
 protected:
  static constexpr size_t kBytes = 4096;

  void SetUp() override {
    AclFixture::SetUp();
    first = make_stream();
    second = make_stream();
    buffer = make_device_buffer(kBytes);
  }
  void TearDown() override {
    EXPECT_ACL(aclrtSynchronizeDevice());
    buffer = {};
    first = {};
    second = {};
    AclFixture::TearDown();
  }

  static void launch_touch(const SoftnpuTaskKind& kind, aclrtStream stream, void* memory, size_t bytes) {
    const Touch touch{static_cast<const uint8_t*>(memory) + driver()->alias_offset, bytes,
                      uint32_t(&kind == &kWriter ? SOFTNPU_ACCESS_WRITES : 0)};
    ASSERT_ACL(driver()->launch(stream, &kind, &touch, sizeof touch, Task::kSmallCost));
  }
  void read(aclrtStream stream, ptrdiff_t offset = 0, size_t bytes = kBytes) {
    launch_touch(kReader, stream, at(buffer, offset), bytes);
  }
  void write(aclrtStream stream, ptrdiff_t offset = 0, size_t bytes = kBytes) {
    launch_touch(kWriter, stream, at(buffer, offset), bytes);
  }

  // The reports since the last call.
  static std::string reports() {
    std::string reply(64 << 10, '\0');
    EXPECT_ACL(find_function<decltype(softnpuControl)>("softnpuControl")("races", reply.data(), reply.size()));
    return reply.c_str();
  }

  Stream first;
  Stream second;
  DeviceBuffer buffer;
};

}  // namespace softnpu::test
