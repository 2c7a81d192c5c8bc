// aclnn_fuzz: calls every aclnn function with random arguments, with red zones and guard pages.
//
//   aclnn_fuzz [--calls N] [--seed S] [--only REGEX] [--jobs J] [--patience SECONDS] [--failures N]
//              [--attempts N] [--late] [--coverage]
//   aclnn_fuzz --case SEED/FUNCTION/ROUND
//   aclnn_fuzz --call 'aclnnAbs(self=ACL_FLOAT[2] zeros, out=ACL_FLOAT[2] zeros)'
//
// A call that crashes, hangs or accesses memory outside of its tensors is printed as a C program. The exit status is 0 if there
// was no such call.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <string>

#include "ops/fuzz/fuzzer.h"
#include "ops/fuzz/run.h"

namespace softnpu::fuzz {
namespace {

[[noreturn]] void complain(const std::string& text) {
  fprintf(stderr, "aclnn_fuzz: %s\n", text.c_str());
  exit(2);
}

void choose(Options& options, const std::string& pattern) {
  const std::regex regex(pattern);
  options.functions.clear();
  for (size_t i = 0; i < functions().size(); ++i) {
    if (std::regex_search(functions()[i].name, regex)) options.functions.push_back(static_cast<int>(i));
  }
  if (options.functions.empty()) complain("no function matches '" + pattern + "'");
}

int repeat(Options& options, const std::string& name) {
  std::smatch match;
  if (!std::regex_match(name, match, std::regex("(\\d+)/(\\w+)/(\\d+)"))) complain("'" + name + "' is not SEED/FUNCTION/ROUND");
  options.seed = std::stoull(match[1]);
  choose(options, "^" + match[2].str() + "$");
  return run_one(options, options.functions.front(), std::stoll(match[3])) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int call(const Options& options, const std::string& text) {
  Case one;
  if (!parse(text, one)) complain("'" + text + "' is not a call in the form that this program prints");
  return run_call(options, one) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main_of(int count, char** words) {
  Options options;
  choose(options, "");
  std::string one;
  std::string text;
  if (const char* calls = getenv("SOFTNPU_ACLNN_CALLS")) options.calls = atoll(calls);
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> const char* {
      if (i + 1 == count) complain(word + " needs a value");
      return words[++i];
    };
    if (word == "--calls") {
      options.calls = atoll(value());
    } else if (word == "--seed") {
      options.seed = strtoull(value(), nullptr, 10);
    } else if (word == "--only") {
      choose(options, value());
    } else if (word == "--jobs") {
      options.jobs = std::clamp(atoi(value()), 1, 16);
    } else if (word == "--patience") {
      options.patience = atof(value());
    } else if (word == "--failures") {
      options.failures = atoi(value());
    } else if (word == "--attempts") {
      options.attempts = atoi(value());
    } else if (word == "--late") {
      options.shows_late = true;
    } else if (word == "--coverage") {
      options.shows_never = true;
    } else if (word == "--case") {
      one = value();
    } else if (word == "--call") {
      text = value();
    } else {
      complain("unknown option " + word);
    }
  }
  set_environment();
  if (!one.empty()) return repeat(options, one);
  if (!text.empty()) return call(options, text);
  return run_all(options) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace softnpu::fuzz

int main(int count, char** words) { return softnpu::fuzz::main_of(count, words); }
