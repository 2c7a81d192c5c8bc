// Commands of the software device: one test per sentence of runtime/softnpu.h.
#include <dlfcn.h>

#include <cstdlib>
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

TEST_F(ControlTest, MemoryChecksAreThoseOfTheEnvironment) {
  const char* const setting = std::getenv("SOFTNPU_MEMORY_CHECK");
  char reply[64];
  ASSERT_ACL(control_("memory-checks", reply, sizeof reply));
  EXPECT_STREQ(reply, setting == nullptr ? "none" : setting);
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
