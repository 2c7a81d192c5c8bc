#include "ops/fuzz/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace softnpu::fuzz {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

std::string text_of(const End& end, const Outcome& outcome) {
  const char* const kinds[] = {"done", "crash", "hang", "access outside", "error"};
  if (end.kind != End::Kind::kDone) return std::string(kinds[static_cast<int>(end.kind)]) + ": " + end.text;
  const char* const results[] = {"refused", "succeeded", "failed late", "access outside"};
  const std::string result = results[static_cast<int>(outcome.result)];
  return outcome.message[0] == 0 ? result : result + ": " + outcome.message;
}

Worker::~Worker() {
  if (output_ >= 0) close(output_);
}

void Worker::start(const std::function<void()>& body) {
  fflush(stdout);
  if (output_ < 0) output_ = memfd_create("output", MFD_CLOEXEC);
  if (ftruncate(output_, 0) != 0 || fcntl(output_, F_SETFL, O_APPEND) != 0) perror("fuzzer: output of a worker");
  state_.function = -1;
  std::fill_n(state_.before, kBefore, -1);
  seen_ = state_.started;
  seen_at_ = now();
  pid_ = fork();
  if (pid_ != 0) return;
  dup2(output_, STDOUT_FILENO);
  dup2(output_, STDERR_FILENO);
#ifndef __SANITIZE_ADDRESS__  // ASan reserves more than that, and has its own limit: run.cpp
  // A kernel that allocates too much gets an exception.
  const rlimit memory = {rlim_t{4} << 30, rlim_t{4} << 30};
  setrlimit(RLIMIT_DATA, &memory);
#endif
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  body();
}

bool Worker::ended(double patience, End& end) {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    pid_ = -1;
    end = end_of(status);
    return true;
  }
  if (state_.started != seen_) {
    seen_ = state_.started;
    seen_at_ = now();
  }
  if (now() - seen_at_ < patience) return false;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status, 0);
  pid_ = -1;
  end = {End::Kind::kHang, "no end after " + std::to_string(static_cast<int>(patience)) + " s"};
  return true;
}

// The device's report of a fault, or the summary of a sanitizer, or else the last line that the process printed.
std::string Worker::explanation() const {
  char text[4096];
  const off_t size = lseek(output_, 0, SEEK_END);
  const ssize_t count = pread(output_, text, sizeof text, std::max<off_t>(0, size - static_cast<off_t>(sizeof text)));
  std::string_view rest(text, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  while (rest.ends_with('\n')) rest.remove_suffix(1);
  size_t begin = rest.rfind("softnpu: SIG");
  if (begin == std::string_view::npos) begin = rest.rfind("SUMMARY: ");
  rest = rest.substr(begin == std::string_view::npos ? rest.rfind('\n') + 1 : begin);
  return std::string(rest.substr(0, rest.find('\n')));
}

End Worker::end_of(int status) const {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string line = explanation();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return {End::Kind::kOutside, state_.outcome.message};
  if (WIFEXITED(status)) return {End::Kind::kError, "exit status " + std::to_string(WEXITSTATUS(status)) + "; " + line};
  const std::string signal = strsignal(WTERMSIG(status));
  const bool outside = line.find("device address") != std::string::npos;
  return {outside ? End::Kind::kOutside : End::Kind::kCrash, signal + "; " + line};
}

}  // namespace softnpu::fuzz
