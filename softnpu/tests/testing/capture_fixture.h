// Helpers for tests that capture streams and run the graphs.
//
//   ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
//   ASSERT_ACL(launch(stream, note('a')));
//   Graph graph = end(stream);
//   ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
//   ASSERT_ACL(aclrtSynchronizeStream(stream));
//   EXPECT_EQ(log(), "a");
#pragma once

#include <mutex>

#include "testing/acl_fixture.h"

namespace softnpu::test {

using Graph = Owned<aclmdlRIDestroy>;

inline constexpr auto kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
inline constexpr auto kThreadLocal = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
inline constexpr auto kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

class CaptureFixture : public AclFixture {
 protected:
  void SetUp() override {
    REQUIRE_SOFTNPU();
    AclFixture::SetUp();
  }
  void TearDown() override {
    if (driver() != nullptr) AclFixture::TearDown();
  }

  static Graph end(aclrtStream stream) {
    aclmdlRI graph = nullptr;
    EXPECT_ACL(aclmdlRICaptureEnd(stream, &graph));
    return Graph(graph);
  }
  static aclError end_code(aclrtStream stream) {
    aclmdlRI graph = reinterpret_cast<aclmdlRI>(1);
    const aclError code = aclmdlRICaptureEnd(stream, &graph);
    EXPECT_EQ(graph == nullptr, code != ACL_SUCCESS);
    const Graph dropped(code == ACL_SUCCESS ? graph : nullptr);
    return code;
  }
  // A task that appends `letter` to the log.
  Task note(char letter, uint64_t cost = Task::kLargeCost) {
    return {.run =
                [this, letter](char*) {
                  const std::lock_guard guard(mutex_);
                  log_ += letter;
                  return aclError(ACL_SUCCESS);
                },
            .cost = cost};
  }
  std::string log() {
    const std::lock_guard guard(mutex_);
    return log_;
  }
  static aclmdlRICaptureStatus status(aclrtStream stream) {
    auto status = aclmdlRICaptureStatus(-1);
    aclmdlRI graph = nullptr;
    EXPECT_ACL(aclmdlRICaptureGetInfo(stream, &status, &graph));
    EXPECT_EQ(graph == nullptr, status == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    return status;
  }

 private:
  std::mutex mutex_;
  std::string log_;
};

}  // namespace softnpu::test
