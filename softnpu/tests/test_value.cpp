// One test per sentence about aclrtValueWrite and aclrtValueWait: streams that write and wait for a word of device memory.
#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class ValueTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    buffer_ = make_device_buffer(64);
    set(0);
  }
  void TearDown() override {
    buffer_ = DeviceBuffer();
    AclFixture::TearDown();
  }
  void set(uint64_t value) const { EXPECT_ACL(aclrtMemcpy(buffer_, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE)); }
  uint64_t get() const {
    uint64_t value = ~uint64_t{0};
    EXPECT_ACL(aclrtMemcpy(&value, 8, buffer_, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
  }
  // The stream waits while the word is `before` and continues when it is `after`.
  void expect_wait(uint32_t condition, uint64_t operand, uint64_t before, uint64_t after) {
    SCOPED_TRACE("condition " + std::to_string(condition));
    set(before);
    Stream stream = make_stream(), writer = make_stream();
    ASSERT_ACL(aclrtValueWait(buffer_, operand, condition, stream));
    Flag passed = signal_when_run(stream);
    EXPECT_FALSE(passed.within(10ms)) << "the stream did not wait";
    ASSERT_ACL(aclrtValueWrite(buffer_, after, 0, writer));
    EXPECT_TRUE(passed.within(kPatience)) << "the stream did not continue";
  }

  DeviceBuffer buffer_;
};

TEST_F(ValueTest, WriteHappensInTheStreamsOrder) {
  Stream stream = make_stream();
  Gate gate(stream);
  ASSERT_ACL(aclrtValueWrite(buffer_, 42, 0, stream));
  EXPECT_EQ(get(), 0u);
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(get(), 42u);
}

TEST_F(ValueTest, WaitsForEveryCondition) {
  expect_wait(ACL_STREAM_WAIT_VALUE_GEQ, 5, 4, 6);
  expect_wait(ACL_STREAM_WAIT_VALUE_EQ, 5, 6, 5);
  expect_wait(ACL_STREAM_WAIT_VALUE_AND, 0b0110, 0b1001, 0b0100);
  expect_wait(ACL_STREAM_WAIT_VALUE_NOR, ~uint64_t{0b0110}, 0b0110, 0b0010);
}

TEST_F(ValueTest, BadArgumentsAreRefused) {
  Stream stream = make_stream();
  uint64_t host = 0;
  auto* bytes = static_cast<std::byte*>(buffer_.get());
  EXPECT_REFUSED(aclrtValueWait(buffer_, 0, 99, stream));
  EXPECT_REFUSED(aclrtValueWait(&host, 0, 0, stream));
  EXPECT_REFUSED(aclrtValueWrite(&host, 0, 0, stream));
  EXPECT_REFUSED(aclrtValueWait(bytes + 1, 0, 0, stream));
  EXPECT_REFUSED(aclrtValueWrite(bytes + 1, 0, 0, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtValueWait(nullptr, 0, 0, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtValueWrite(nullptr, 0, 0, stream));
}

}  // namespace
}  // namespace softnpu::test
