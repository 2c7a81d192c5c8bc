// Commands of the software device: one test per sentence of runtime/softnpu.h.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "runtime/softnpu.h"
#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class ControlTest : public AclFixture {
 protected:
  void SetUp() override {
    REQUIRE_SOFTNPU();
    AclFixture::SetUp();
    control_ = reinterpret_cast<decltype(&softnpuControl)>(dlsym(RTLD_DEFAULT, "softnpuControl"));
    ASSERT_NE(control_, nullptr);
  }
  decltype(&softnpuControl) control_ = nullptr;
};

TEST_F(ControlTest, HelpNamesEveryCommand) {
  char reply[4096];
  ASSERT_ACL(control_("help", reply, sizeof reply));
  EXPECT_NE(std::strstr(reply, "check-memory: "), nullptr) << reply;
}

class ChildMemoryChecks : public ControlTest {};

TEST_F(ChildMemoryChecks, Off) {
  char reply[64];
  ASSERT_ACL(control_("memory-checks", reply, sizeof reply));
  EXPECT_STREQ(reply, "none");
}

TEST_F(ChildMemoryChecks, Two) {
  char reply[64];
  ASSERT_ACL(control_("memory-checks", reply, sizeof reply));
  EXPECT_STREQ(reply, "redzone,guard");
}

TEST_F(ControlTest, MemoryChecksAreThoseOfTheEnvironment) {
  EXPECT_CHILD_PASSES("ChildMemoryChecks.Off", {"SOFTNPU_MEMORY_CHECK=none"});
  EXPECT_CHILD_PASSES("ChildMemoryChecks.Two", {"SOFTNPU_MEMORY_CHECK=guard, redzone"});
}

TEST_F(ControlTest, AnAnswerIsCutToFit) {
  char reply[8];
  std::memset(reply, 'x', sizeof reply);
  ASSERT_ACL(control_("help", reply, sizeof reply));
  EXPECT_EQ(std::strlen(reply), sizeof reply - 1);
  ASSERT_ACL(control_("help", nullptr, 0));
}

TEST_F(ControlTest, BadCommandsAreRefused) {
  char reply[64];
  for (const char* command : {"", "nonsense", " help"}) {
    EXPECT_EQ(control_(command, reply, sizeof reply), ACL_ERROR_INVALID_PARAM) << command;
    EXPECT_STREQ(reply, "");
  }
  EXPECT_EQ(control_(nullptr, reply, sizeof reply), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(control_("help", nullptr, 1), ACL_ERROR_INVALID_PARAM);
}

}  // namespace
}  // namespace softnpu::test
