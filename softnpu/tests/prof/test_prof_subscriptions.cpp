// Subscriptions: the records in the pipe, and the functions that read them.
#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "prof/prof_fixture.h"

namespace softnpu::test {
namespace {

class ProfSubscriptions : public ProfFixture {
 protected:
  void SetUp() override {
    ProfFixture::SetUp();
    ASSERT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    ASSERT_ACL(aclprofGetOpDescSize(&size_));
  }
  void TearDown() override {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
    ProfFixture::TearDown();
  }
  aclprofSubscribeConfig* subscription(bool times = true) {
    return aclprofCreateSubscribeConfig(times, ACL_AICORE_NONE, &ends_[1]);
  }
  void run(std::initializer_list<const char*> names) {
    Stream stream = make_stream();
    for (const char* name : names) ASSERT_ACL(launch(stream, kernel(name, Task::kLargeCost, 1ms)));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
  }
  // The bytes in the pipe now.
  std::vector<std::byte> contents() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::vector<std::byte> bytes(1 << 20);
    const ssize_t count = read(ends_[0], bytes.data(), bytes.size());
    bytes.resize(size_t(std::max<ssize_t>(count, 0)));
    return bytes;
  }

  int ends_[2] = {-1, -1};
  size_t size_ = 0;
};

TEST_F(ProfSubscriptions, APipeGetsEachOperator) {
  REQUIRE_SOFTNPU();
  aclprofSubscribeConfig* const created = subscription();
  ASSERT_ACL(aclprofModelSubscribe(7, created));
  run({"aclnnTest", "aclnnInplaceAdd", "not_an_operator"});
  ASSERT_ACL(aclprofModelUnSubscribe(7));
  const auto bytes = contents();
  uint32_t count = 0;
  ASSERT_ACL(aclprofGetOpNum(bytes.data(), bytes.size(), &count));
  ASSERT_EQ(count, 2u);
  ASSERT_EQ(bytes.size(), 2 * size_);
  const char* const names[] = {"aclnnTest", "aclnnInplaceAdd"};
  const char* const types[] = {"Test", "Add"};
  for (uint32_t index = 0; index < count; ++index) {
    size_t length = 0;
    char text[ACL_PROF_MAX_OP_NAME_LEN];
    ASSERT_ACL(aclprofGetOpNameLen(bytes.data(), bytes.size(), index, &length));
    EXPECT_EQ(length, strlen(names[index]) + 1);
    ASSERT_ACL(aclprofGetOpName(bytes.data(), bytes.size(), index, text, length));
    EXPECT_STREQ(text, names[index]);
    ASSERT_ACL(aclprofGetOpTypeLen(bytes.data(), bytes.size(), index, &length));
    ASSERT_ACL(aclprofGetOpType(bytes.data(), bytes.size(), index, text, length));
    EXPECT_STREQ(text, types[index]);
    EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetOpType(bytes.data(), bytes.size(), index, text, length - 1));
    EXPECT_EQ(aclprofGetModelId(bytes.data(), bytes.size(), index), 7u);
    EXPECT_EQ(aclprofGetOpFlag(bytes.data(), bytes.size(), index), ACL_SUBSCRIBE_OP);
    const uint64_t start = aclprofGetOpStart(bytes.data(), bytes.size(), index);
    const uint64_t end = aclprofGetOpEnd(bytes.data(), bytes.size(), index);
    EXPECT_GT(start, 0u);
    EXPECT_EQ(aclprofGetOpDuration(bytes.data(), bytes.size(), index), end - start);
    EXPECT_GE(end - start, 1000000u);
    EXPECT_EQ(aclprofGetOpAttriValue(bytes.data(), bytes.size(), index, ACL_SUBSCRIBE_ATTRI_THREADID), std::to_string(gettid()));
  }
  EXPECT_ACL(aclprofDestroySubscribeConfig(created));
}

TEST_F(ProfSubscriptions, TimesAreZeroIfTheyAreNotWanted) {
  REQUIRE_SOFTNPU();
  aclprofSubscribeConfig* const created = subscription(/*times=*/false);
  ASSERT_ACL(aclprofModelSubscribe(1, created));
  run({"aclnnTest"});
  ASSERT_ACL(aclprofModelUnSubscribe(1));
  const auto bytes = contents();
  ASSERT_EQ(bytes.size(), size_);
  EXPECT_EQ(aclprofGetOpDuration(bytes.data(), bytes.size(), 0), 0u);
  EXPECT_ACL(aclprofDestroySubscribeConfig(created));
}

TEST_F(ProfSubscriptions, WrongOrderAndArgumentsAreNamed) {
  aclprofSubscribeConfig* const created = subscription();
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_MODEL_ID, aclprofModelUnSubscribe(1));
  ASSERT_ACL(aclprofModelSubscribe(1, created));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, aclprofModelSubscribe(1, created));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_API_CONFLICT, aclprofInit(folder().c_str(), folder().size()));
  ASSERT_ACL(aclprofModelUnSubscribe(1));
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_API_CONFLICT, aclprofModelSubscribe(1, created));
  ASSERT_ACL(aclprofFinalize());
  EXPECT_ACL(aclprofDestroySubscribeConfig(created));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofDestroySubscribeConfig(created));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofModelSubscribe(1, created));
  int closed = 12345;
  EXPECT_EQ(aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, &closed), nullptr);
  EXPECT_RECENT_ERROR("12345");
  EXPECT_EQ(aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, &ends_[0]), nullptr);
  EXPECT_EQ(aclprofCreateSubscribeConfig(1, aclprofAicoreMetrics(99), &ends_[1]), nullptr);
}

TEST_F(ProfSubscriptions, WhatIsNoOperatorIsRefused) {
  alignas(8) static char garbage[4096];
  uint32_t count = 0;
  size_t length = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(garbage, size_ - 1, &count));
  EXPECT_RECENT_ERROR("not a multiple of aclprofGetOpDescSize");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(garbage, size_, &count));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetOpNameLen(garbage, size_, 1, &length));
  EXPECT_RECENT_ERROR("'index' (1)");
  EXPECT_EQ(aclprofGetOpStart(garbage, size_, 0), 0u);
  EXPECT_RECENT_ERROR("was not written by a subscription");
  EXPECT_EQ(aclprofGetOpFlag(nullptr, size_, 0), ACL_SUBSCRIBE_NONE);
  EXPECT_EQ(aclprofGetOpAttriValue(garbage, size_, 0, ACL_SUBSCRIBE_ATTRI_THREADID), nullptr);
}

TEST_F(ProfSubscriptions, AReaderThatLeavesIsNamedAndHarmsNothing) {
  REQUIRE_SOFTNPU();
  aclprofSubscribeConfig* const created = subscription();
  ASSERT_ACL(aclprofModelSubscribe(1, created));
  close(ends_[0]);
  ends_[0] = -1;
  run({"aclnnTest", "aclnnTest"});
  EXPECT_ACL_ERROR(ACL_ERROR_WRITE_FILE, aclprofModelUnSubscribe(1));
  EXPECT_RECENT_ERROR("did not accept 2 operators");
  EXPECT_ACL(aclprofDestroySubscribeConfig(created));
}

}  // namespace
}  // namespace softnpu::test
