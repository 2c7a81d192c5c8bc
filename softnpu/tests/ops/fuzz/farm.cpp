#include "ops/fuzz/farm.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string_view>

#include "ops/fuzz/generate.h"
#include "ops/fuzz/repair.h"
#include "ops/fuzz/run.h"
#include "ops/fuzz/shrink.h"

namespace softnpu::fuzz {
namespace {

constexpr int kMaxJobs = 16;
constexpr int kKept = 5;
constexpr int kMaxExamples = 2;
constexpr int kBefore = 8;

// What earlier cases of a function left for later ones, and its counts. Only cases of the same function change it, so that a case
// depends on the seed and the earlier cases of its function alone.
struct Progress {
  int64_t rounds;
  int64_t refused;
  int64_t succeeded;
  int64_t late;
  int64_t crashes;
  int64_t hangs;
  int64_t outside;
  int64_t bad_examples;  // that did not succeed
  char late_message[1024];
  char refusal[1024];
  bool has_repaired;
  Case repaired;  // what is tried next: a refused case, changed as the message asks
  int example_count;
  int kept_count;
  Case kept[kKept];  // examples, then cases that succeeded

  int64_t failures() const { return crashes + hangs + outside; }
};

// What a worker does now.
struct Desk {
  std::atomic<int64_t> started;  // cases begun
  std::atomic<int> function;     // -1: between two cases
  int64_t round;
  int64_t next_round;    // where a new worker goes on
  size_t next_function;  // position in Options::functions
  int before[kBefore];   // functions of the last cases of this process, newest last; -1 for none
  Case one;
  Outcome outcome;
};

struct Shared {
  Desk desks[kMaxJobs + 1];  // the last one repeats cases alone
  Progress progress[1];      // by number of the function
};

Shared* map_shared() {
  const size_t bytes = sizeof(Shared) + sizeof(Progress) * functions().size();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    exit(EXIT_FAILURE);
  }
  auto* shared = static_cast<Shared*>(memory);  // all zero
  for (Desk& desk : shared->desks) desk.function = -1;
  return shared;
}

void keep_examples(Shared& shared) {
  for (const char* text : examples()) {
    Case one;
    if (!parse(text, one)) {
      printf("fuzzer: the example '%s' does not fit the table of functions\n", text);
      exit(EXIT_FAILURE);
    }
    Progress& progress = shared.progress[one.function];
    if (progress.example_count == kMaxExamples) continue;
    progress.kept[progress.kept_count++] = one;
    ++progress.example_count;
  }
}

bool has_elements(const Case& one) {
  return std::any_of(one.tensors, one.tensors + one.tensor_count,
                     [](const Tensor& tensor) { return !tensor.is_null && count_elements(tensor) > 1; });
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash = 1469598103934665603u;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 1099511628211u;
  return hash;
}

Random random_of(uint64_t seed, int function, int64_t round) {
  return Random(seed, hash_of(functions()[static_cast<size_t>(function)].name) + static_cast<uint64_t>(round));
}

// Examples come first. Half of the other cases change one thing of a case that succeeded.
void next_case(Random& random, int function, int64_t round, Progress& progress, Case& one) {
  if (round < progress.example_count) {
    one = progress.kept[round];
  } else if (progress.has_repaired) {
    one = progress.repaired;
    progress.has_repaired = false;
  } else if (progress.kept_count > 0 && random.chance(0.5)) {
    one = progress.kept[random.below(progress.kept_count)];
    do mutate(random, one);
    while (random.chance(0.2));
  } else {
    generate(random, function, one);
  }
}

void learn(Random& random, const Case& one, const Outcome& outcome, Progress& progress) {
  switch (outcome.result) {
    case Result::kRefused:
      ++progress.refused;
      memcpy(progress.refusal, outcome.message, sizeof outcome.message);
      break;
    case Result::kSucceeded:
      ++progress.succeeded;
      break;
    case Result::kLate:
      ++progress.late;
      memcpy(progress.late_message, outcome.message, sizeof outcome.message);
      break;
    case Result::kOutside:
      return;  // the parent counts it
  }
  const bool succeeded = outcome.result == Result::kSucceeded;
  if (!succeeded) {
    progress.repaired = one;
    progress.has_repaired = random.chance(0.9) && repair(random, progress.repaired, outcome.message);
  }
  if (!succeeded || (progress.kept_count > 0 && !has_elements(one))) return;
  const int64_t place = progress.kept_count < kKept ? progress.kept_count++ : random.between(progress.example_count, kKept - 1);
  progress.kept[place] = one;
}

void run_case(const Options& options, Shared& shared, Desk& desk, int function, int64_t round) {
  Progress& progress = shared.progress[function];
  Random random = random_of(options.seed, function, round);
  next_case(random, function, round, progress, desk.one);
  desk.round = round;
  ++progress.rounds;
  if (ftruncate(STDERR_FILENO, 0) != 0) perror("ftruncate");  // what earlier cases printed
  desk.function = function;
  ++desk.started;
  run(desk.one, desk.outcome);
  std::shift_left(desk.before, desk.before + kBefore, 1);
  desk.before[kBefore - 1] = function;
  if (round < progress.example_count && desk.outcome.result != Result::kSucceeded) ++progress.bad_examples;
  learn(random, desk.one, desk.outcome, progress);
  if (desk.outcome.result == Result::kOutside) _exit(3);  // the process may be damaged
  desk.function = -1;
}

[[noreturn]] void work(const Options& options, Shared& shared, int number) {
  start_device();
  Desk& desk = shared.desks[number];
  const size_t count = options.functions.size();
  const int64_t rounds = (options.calls + static_cast<int64_t>(count) - 1) / static_cast<int64_t>(count);
  for (; desk.next_round < rounds; ++desk.next_round, desk.next_function = 0) {
    while (desk.next_function < count) {
      const size_t position = desk.next_function++;
      const int function = options.functions[position];
      if (static_cast<int>(position) % options.jobs != number) continue;
      if (shared.progress[function].failures() >= options.failures) continue;
      run_case(options, shared, desk, function, desk.next_round);
    }
  }
  _exit(0);
}

[[noreturn]] void repeat_alone(Shared& shared) {
  start_device();
  Desk& desk = shared.desks[kMaxJobs];
  desk.function = desk.one.function;
  ++desk.started;
  run(desk.one, desk.outcome);
  _exit(desk.outcome.result == Result::kOutside ? 3 : 0);
}

// How a worker ended.
struct End {
  enum class Kind { kDone, kCrash, kHang, kOutside, kError } kind = Kind::kDone;
  std::string text;  // what happened, on one line
};

class Worker {
 public:
  Worker(Shared& shared, int number) : desk_(shared.desks[number]) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (output_ >= 0) close(output_);
  }

  template <typename Body>
  void start(Body body) {
    fflush(stdout);
    if (output_ < 0) output_ = memfd_create("output", MFD_CLOEXEC);
    if (ftruncate(output_, 0) != 0 || fcntl(output_, F_SETFL, O_APPEND) != 0) perror("fuzzer: output of a worker");
    desk_.function = -1;
    std::fill_n(desk_.before, kBefore, -1);
    seen_ = desk_.started;
    seen_at_ = now();
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(output_, STDOUT_FILENO);
    dup2(output_, STDERR_FILENO);
#ifndef __SANITIZE_ADDRESS__  // which reserves more than that for itself, and has a limit of its own: run.cpp
    // A kernel that wants memory without end gets an exception.
    const rlimit memory = {rlim_t{4} << 30, rlim_t{4} << 30};
    setrlimit(RLIMIT_DATA, &memory);
#endif
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    body();
  }

  bool runs() const { return pid_ > 0; }

  // True if it ended, or was ended because of a hang.
  bool ended(double patience, End& end) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      end = end_of(status);
      return true;
    }
    if (desk_.started != seen_) {
      seen_ = desk_.started;
      seen_at_ = now();
    }
    if (now() - seen_at_ < patience) return false;
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    end = {End::Kind::kHang, "no end after " + std::to_string(static_cast<int>(patience)) + " s"};
    return true;
  }

  Desk& desk() { return desk_; }

 private:
  static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

  // The device's explanation of a fault, or the summary of a sanitizer, or else the last line that the worker printed.
  std::string explanation() const {
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

  End end_of(int status) const {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    const std::string line = explanation();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return {End::Kind::kOutside, desk_.outcome.message};
    if (WIFEXITED(status)) return {End::Kind::kError, "exit status " + std::to_string(WEXITSTATUS(status)) + "; " + line};
    const std::string signal = strsignal(WTERMSIG(status));
    const bool outside = line.find("device address") != std::string::npos;
    return {outside ? End::Kind::kOutside : End::Kind::kCrash, signal + "; " + line};
  }

  Desk& desk_;
  pid_t pid_ = -1;
  int output_ = -1;
  int64_t seen_ = 0;
  double seen_at_ = 0;
};

std::string text_of(const End& end, const Outcome& outcome) {
  const char* const kinds[] = {"done", "crash", "hang", "access outside", "error"};
  if (end.kind != End::Kind::kDone) return std::string(kinds[static_cast<int>(end.kind)]) + ": " + end.text;
  const char* const results[] = {"refused", "succeeded", "failed late", "access outside"};
  const std::string result = results[static_cast<int>(outcome.result)];
  return outcome.message[0] == 0 ? result : result + ": " + outcome.message;
}

class Farm {
 public:
  explicit Farm(const Options& options) : options_(options), shared_(*map_shared()) { keep_examples(shared_); }

  bool run() {
    std::deque<Worker> workers;
    for (int i = 0; i < options_.jobs; ++i) workers.emplace_back(shared_, i);
    for (int i = 0; i < options_.jobs; ++i) start(workers[static_cast<size_t>(i)], i);
    while (std::any_of(workers.begin(), workers.end(), [](const Worker& worker) { return worker.runs(); })) {
      for (int i = 0; i < options_.jobs; ++i) watch(workers[static_cast<size_t>(i)], i);
      poll(nullptr, 0, 5);
    }
    return print_counts();
  }

  bool run_one(int function, int64_t round) {
    Worker worker(shared_, 0);
    Desk& desk = worker.desk();
    while (desk.next_round <= round) {
      worker.start([&] {
        start_device();
        while (desk.next_round <= round) {
          const int64_t here = desk.next_round++;
          run_case(options_, shared_, desk, function, here);
        }
        _exit(0);
      });
      End end;
      while (!worker.ended(options_.patience, end)) poll(nullptr, 0, 5);
      if (desk.next_round <= round) continue;
      print_case(desk.one, desk.round, text_of(end, desk.outcome));
      return end.kind == End::Kind::kDone;
    }
    return false;
  }

  bool run_call(const Case& one) {
    const End end = repeat(one, options_.patience);
    print_case(one, 0, text_of(end, shared_.desks[kMaxJobs].outcome));
    return end.kind == End::Kind::kDone;
  }

 private:
  void start(Worker& worker, int number) {
    worker.start([&] { work(options_, shared_, number); });
  }

  void watch(Worker& worker, int number) {
    End end;
    if (!worker.runs() || !worker.ended(options_.patience, end) || end.kind == End::Kind::kDone) return;
    Desk& desk = worker.desk();
    if (desk.function < 0) {
      printf("fuzzer: a worker ended between two cases: %s\n", end.text.c_str());
      ++errors_;
      return;
    }
    book(desk, end);
    start(worker, number);
  }

  // How the case ends in a new process.
  End repeat(const Case& one, double patience) {
    Worker worker(shared_, kMaxJobs);
    worker.desk().one = one;
    worker.start([&] { repeat_alone(shared_); });
    End end;
    while (!worker.ended(patience, end)) poll(nullptr, 0, 1);
    return end;
  }

  void book(const Desk& desk, const End& end) {
    Progress& progress = shared_.progress[desk.function];
    const char* name = functions()[static_cast<size_t>(desk.function)].name;
    const End again = repeat(desk.one, options_.patience);
    if (end.kind == End::Kind::kHang && again.kind == End::Kind::kDone) {
      printf("fuzzer: %s was slow once\n", name);
      return;
    }
    Case one = desk.one;
    End shown = end;
    if (progress.failures() == 0 && again.kind != End::Kind::kDone) {
      const double patience = std::min(options_.patience, 3.0);
      shrink(one, options_.attempts, [&](const Case& simpler) {
        const End found = repeat(simpler, patience);
        if (found.kind == again.kind) shown = found;
        return found.kind == again.kind;
      });
    }
    print_case(one, desk.round, text_of(shown, desk.outcome) + (again.kind == End::Kind::kDone ? alone_text(desk) : ""));
    int64_t& count = end.kind == End::Kind::kHang      ? progress.hangs
                     : end.kind == End::Kind::kOutside ? progress.outside
                                                       : progress.crashes;
    ++count;
  }

  // An earlier case of the process may have damaged it.
  static std::string alone_text(const Desk& desk) {
    std::string result = " (not when repeated alone; before it ran";
    for (const int function : desk.before) {
      if (function >= 0) result += std::string(" ") + functions()[static_cast<size_t>(function)].name;
    }
    return result + ")";
  }

  void print_case(const Case& one, int64_t round, std::string what) {
    std::replace(what.begin(), what.end(), '\n', ' ');
    const char* name = functions()[static_cast<size_t>(one.function)].name;
    printf("== %s, case %" PRIu64 "/%s/%" PRId64 ": %s\n", name, options_.seed, name, round, what.c_str());
    printf("%s\n", describe(one).c_str());
    printf("%s\n", as_program(one, std::string(name) + ": " + what).c_str());
    fflush(stdout);
  }

  bool print_counts() {
    Progress sum = {};
    for (const int number : options_.functions) {
      const Progress& progress = shared_.progress[number];
      const char* name = functions()[static_cast<size_t>(number)].name;
      sum.rounds += progress.rounds;
      sum.refused += progress.refused;
      sum.succeeded += progress.succeeded;
      sum.late += progress.late;
      sum.crashes += progress.crashes;
      sum.hangs += progress.hangs;
      sum.outside += progress.outside;
      sum.bad_examples += progress.bad_examples;
      sum.kept_count += progress.succeeded > 0;
      if (progress.bad_examples > 0)
        printf("an example of %s did not succeed: see --case %" PRIu64 "/%s/0\n", name, options_.seed, name);
      if (options_.shows_late && progress.late > 0) {
        printf("late: %s, %" PRId64 " of %" PRId64 " calls: %s\n", name, progress.late, progress.rounds, progress.late_message);
      }
      if (options_.shows_never && progress.succeeded == 0) {
        printf("never succeeded: %s, %" PRId64 " calls, %" PRId64 " late: %s\n", name, progress.rounds, progress.late,
               progress.late > 0 ? progress.late_message : progress.refusal);
      }
    }
    printf("%zu functions, %d of them succeeded\n", options_.functions.size(), sum.kept_count);
    printf("%" PRId64 " calls, %" PRId64 " accepted, %" PRId64 " succeeded, %" PRId64 " failed late, %" PRId64
           " crashes, %" PRId64 " hangs, %" PRId64 " accesses outside\n",
           sum.rounds, sum.rounds - sum.refused, sum.succeeded, sum.late, sum.crashes, sum.hangs, sum.outside);
    return sum.failures() + sum.bad_examples == 0 && errors_ == 0;
  }

  const Options& options_;
  Shared& shared_;
  int errors_ = 0;
};

}  // namespace

bool run_all(const Options& options) { return Farm(options).run(); }
bool run_call(const Options& options, const Case& one) { return Farm(options).run_call(one); }
bool run_one(const Options& options, int function, int64_t round) { return Farm(options).run_one(function, round); }

}  // namespace softnpu::fuzz
