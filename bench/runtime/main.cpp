// runtime_bench: what the device's runtime costs, as ratios to plain ways of doing the same, measured in one run.
//
//   runtime_bench                        all cases; exits with 1 if a bar is missed
//   runtime_bench --case enqueue_busy    one of them
//   runtime_bench --list                 their names and what they measure
//   runtime_bench --json results.json    also writes the numbers there
//   runtime_bench --rounds 50            more rounds, steadier medians
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "device.h"
#include "report.h"

namespace {

constexpr int kRounds = 15;

struct Arguments {
  std::string only;
  std::string json;
  int rounds = kRounds;
  bool list = false;
};

[[noreturn]] void explain_usage() {
  std::fprintf(stderr, "usage: runtime_bench [--case NAME] [--rounds N] [--json FILE] [--list]\n");
  std::exit(2);
}

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--list") {
      arguments.list = true;
      continue;
    }
    if (++i == count) explain_usage();
    if (name == "--case") {
      arguments.only = values[i];
    } else if (name == "--json") {
      arguments.json = values[i];
    } else if (name == "--rounds") {
      arguments.rounds = std::atoi(values[i]);
    } else {
      explain_usage();
    }
  }
  if (arguments.rounds < 1) explain_usage();
  return arguments;
}

std::vector<bench::Case> all_cases() {
  std::vector<bench::Case> all;
  for (const auto& family : {bench::queue_cases(), bench::event_cases(), bench::memory_cases(), bench::copy_cases()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace

int main(int argument_count, char** argument_values) {
  const Arguments arguments = parse(argument_count, argument_values);
  const std::vector<bench::Case> cases = all_cases();
  if (arguments.list) {
    for (const bench::Case& one : cases) std::printf("%-20s %s / %s\n", one.name.c_str(), one.job.c_str(), one.plain.c_str());
    return 0;
  }

  REQUIRE_ACL(aclInit(nullptr));
  REQUIRE_ACL(aclrtSetDevice(0));
  bench::driver();
  std::vector<bench::Result> results;
  bool all_ok = true;
  for (const bench::Case& one : cases) {
    if (!arguments.only.empty() && one.name != arguments.only) continue;
    if (results.empty()) bench::print_header();
    results.push_back({one, bench::measure(one, arguments.rounds)});
    bench::print_row(results.back(), argument_values[0]);
    all_ok = all_ok && results.back().ok();
  }
  if (results.empty()) {
    std::fprintf(stderr, "runtime_bench: there is no case '%s'; --list shows them\n", arguments.only.c_str());
    return 2;
  }
  REQUIRE_ACL(aclrtResetDevice(0));
  REQUIRE_ACL(aclFinalize());
  if (!arguments.json.empty() && !bench::write_json(arguments.json, results)) {
    std::fprintf(stderr, "runtime_bench: '%s' cannot be written\n", arguments.json.c_str());
    return 2;
  }
  return all_ok ? 0 : 1;
}
