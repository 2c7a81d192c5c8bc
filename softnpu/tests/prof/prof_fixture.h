// Helpers for the tests of libmsprofiler: a temporary folder for results, and the lines that a recording wrote.
//
//   Profile profile(*this, ACL_PROF_TASK_TIME);
//   ... work ...
//   profile.end();
//   EXPECT_EQ(lines("device_0/tasks.jsonl").size(), 2u);
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "acl/acl_prof.h"
#include "runtime/base/json.h"
#include "testing/acl_fixture.h"
#include "testing/temp_dir.h"

namespace softnpu::test {

class ProfFixture : public AclFixture {
 protected:
  std::string folder() const { return temp_.path().string(); }

  // The folders PROF_*, in the order of their numbers.
  std::vector<std::filesystem::path> results() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(temp_.path())) {
      if (entry.path().filename().string().starts_with("PROF_")) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  // The complete lines of a file of the newest result. A line that is not JSON fails the test.
  std::vector<Json> lines(const std::string& file) const {
    return results().empty() ? std::vector<Json>() : lines_of(results().back() / file);
  }
  static std::vector<Json> lines_of(const std::filesystem::path& path) {
    std::vector<Json> found;
    const std::string content = read_file(path);
    for (size_t begin = 0, end; (end = content.find('\n', begin)) != std::string::npos; begin = end + 1) {
      Result<Json> line = Json::parse(std::string_view(content).substr(begin, end - begin));
      EXPECT_TRUE(line.ok()) << content.substr(begin, end - begin);
      if (line.ok()) found.push_back(std::move(line.value()));
    }
    return found;
  }

  static std::string word(const Json& line, const char* field) {
    const Json* const found = line.find(field);
    return found == nullptr || found->string() == nullptr ? "" : *found->string();
  }
  static double number(const Json& line, const char* field) {
    const Json* const found = line.find(field);
    return found == nullptr || found->number() == nullptr ? 0 : *found->number();
  }
  static std::vector<Json> named(const std::vector<Json>& lines, const std::string& name) {
    std::vector<Json> found;
    for (const Json& line : lines) {
      if (word(line, "name") == name) found.push_back(line);
    }
    return found;
  }

  static aclprofConfig* config(uint64_t bits, uint32_t device = 0, aclprofAicoreMetrics metrics = ACL_AICORE_NONE) {
    return aclprofCreateConfig(&device, 1, metrics, nullptr, bits);
  }

  // A recording of device 0, from the constructor to end().
  class Profile {
   public:
    Profile(const ProfFixture& test, uint64_t bits) : config_(config(bits)) {
      EXPECT_ACL(aclprofInit(test.folder().c_str(), test.folder().size()));
      EXPECT_ACL(aclprofStart(config_));
    }
    ~Profile() { end(); }
    Profile(const Profile&) = delete;
    Profile& operator=(const Profile&) = delete;

    void end() {
      if (config_ == nullptr) return;
      EXPECT_ACL(aclprofStop(config_));
      EXPECT_ACL(aclprofFinalize());
      EXPECT_ACL(aclprofDestroyConfig(config_));
      config_ = nullptr;
    }

   private:
    aclprofConfig* config_;
  };

 private:
  TempDir temp_;
};

// A kernel for the tests: a task that a profile treats as an operator.
inline Task kernel(const char* name, uint64_t cost = Task::kLargeCost, milliseconds span = 0ms) {
  return {.run =
              [span](char*) {
                if (span > 0ms) std::this_thread::sleep_for(span);
                return aclError(ACL_SUCCESS);
              },
          .name = name,
          .cost = cost};
}

}  // namespace softnpu::test
