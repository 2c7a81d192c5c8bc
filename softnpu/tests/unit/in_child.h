// Runs code in a child process, because settings are read once per process.
//
//   const ChildOutput output = in_child({{"SOFTNPU_LAUNCH", "queue"}}, [] { return std::string("result"); });
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace softnpu {

using Environment = std::vector<std::pair<std::string, std::string>>;

// The result of the child, and its output on stdout and stderr.
struct ChildOutput {
  std::string result;
  std::string printed;
};

inline ChildOutput in_child(const Environment& environment, const std::function<std::string()>& body) {
  int result[2], printed[2];
  if (pipe(result) != 0 || pipe(printed) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(printed[1], STDOUT_FILENO);
    dup2(printed[1], STDERR_FILENO);
    const std::string text = body();
    if (write(result[1], text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
    _exit(0);
  }
  close(result[1]);
  close(printed[1]);
  const auto drain = [](int fd) {
    std::string all;
    char buffer[4096];
    for (ssize_t count; (count = read(fd, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<size_t>(count));
    close(fd);
    return all;
  };
  ChildOutput output{drain(result[0]), drain(printed[0])};
  waitpid(child, nullptr, 0);
  return output;
}

}  // namespace softnpu
