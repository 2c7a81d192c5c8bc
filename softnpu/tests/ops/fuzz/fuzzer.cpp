#include "ops/fuzz/fuzzer.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "ops/fuzz/progress.h"
#include "ops/fuzz/run.h"
#include "ops/fuzz/shrink.h"
#include "ops/fuzz/worker.h"

namespace softnpu::fuzz {
namespace {

constexpr int kMaxJobs = 16;

struct Shared {
  WorkerState states[kMaxJobs + 1];  // the last one repeats cases alone
  Progress progress[1];              // by number of the function
};

Shared* map_shared() {
  const size_t bytes = sizeof(Shared) + sizeof(Progress) * functions().size();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    exit(EXIT_FAILURE);
  }
  auto* shared = static_cast<Shared*>(memory);  // all zero
  for (WorkerState& state : shared->states) state.function = -1;
  return shared;
}

void add_examples(Shared& shared) {
  for (const char* text : examples()) {
    Case one;
    if (!parse(text, one)) {
      printf("fuzzer: the example '%s' does not fit the table of functions\n", text);
      exit(EXIT_FAILURE);
    }
    add_example(one, shared.progress[one.function]);
  }
}

void run_case(const Options& options, Shared& shared, WorkerState& state, int function, int64_t round) {
  Progress& progress = shared.progress[function];
  Random random = random_of(options.seed, function, round);
  next_case(random, function, round, progress, state.one);
  state.round = round;
  ++progress.rounds;
  if (ftruncate(STDERR_FILENO, 0) != 0) perror("ftruncate");  // what earlier cases printed
  state.function = function;
  ++state.started;
  run(state.one, state.outcome);
  std::shift_left(state.before, state.before + kBefore, 1);
  state.before[kBefore - 1] = function;
  if (round < progress.example_count && state.outcome.result != Result::kSucceeded) ++progress.bad_examples;
  learn(random, state.one, state.outcome, progress);
  if (state.outcome.result == Result::kOutside) _exit(3);  // the process may be damaged
  state.function = -1;
}

[[noreturn]] void work(const Options& options, Shared& shared, int number) {
  start_device();
  WorkerState& state = shared.states[number];
  const size_t count = options.functions.size();
  const int64_t rounds = (options.calls + static_cast<int64_t>(count) - 1) / static_cast<int64_t>(count);
  for (; state.next_round < rounds; ++state.next_round, state.next_function = 0) {
    while (state.next_function < count) {
      const size_t position = state.next_function++;
      const int function = options.functions[position];
      if (static_cast<int>(position) % options.jobs != number) continue;
      if (shared.progress[function].failures() >= options.failures) continue;
      run_case(options, shared, state, function, state.next_round);
    }
  }
  _exit(0);
}

[[noreturn]] void repeat_alone(Shared& shared) {
  start_device();
  WorkerState& state = shared.states[kMaxJobs];
  state.function = state.one.function;
  ++state.started;
  run(state.one, state.outcome);
  _exit(state.outcome.result == Result::kOutside ? 3 : 0);
}

class Fuzzer {
 public:
  explicit Fuzzer(const Options& options) : options_(options), shared_(*map_shared()) { add_examples(shared_); }

  bool run() {
    std::deque<Worker> workers;
    for (int i = 0; i < options_.jobs; ++i) workers.emplace_back(shared_.states[i]);
    for (int i = 0; i < options_.jobs; ++i) start(workers[static_cast<size_t>(i)], i);
    while (std::any_of(workers.begin(), workers.end(), [](const Worker& worker) { return worker.runs(); })) {
      for (int i = 0; i < options_.jobs; ++i) watch(workers[static_cast<size_t>(i)], i);
      poll(nullptr, 0, 5);
    }
    return print_counts();
  }

  bool run_one(int function, int64_t round) {
    Worker worker(shared_.states[0]);
    WorkerState& state = worker.state();
    while (state.next_round <= round) {
      worker.start([&] {
        start_device();
        while (state.next_round <= round) {
          const int64_t here = state.next_round++;
          run_case(options_, shared_, state, function, here);
        }
        _exit(0);
      });
      End end;
      while (!worker.ended(options_.patience, end)) poll(nullptr, 0, 5);
      if (state.next_round <= round) continue;
      print_case(state.one, state.round, text_of(end, state.outcome));
      return end.kind == End::Kind::kDone;
    }
    return false;
  }

  bool run_call(const Case& one) {
    const End end = repeat(one, options_.patience);
    print_case(one, 0, text_of(end, shared_.states[kMaxJobs].outcome));
    return end.kind == End::Kind::kDone;
  }

 private:
  void start(Worker& worker, int number) {
    worker.start([&] { work(options_, shared_, number); });
  }

  void watch(Worker& worker, int number) {
    End end;
    if (!worker.runs() || !worker.ended(options_.patience, end) || end.kind == End::Kind::kDone) return;
    WorkerState& state = worker.state();
    if (state.function < 0) {
      printf("fuzzer: a worker ended between two cases: %s\n", end.text.c_str());
      ++errors_;
      return;
    }
    record_failure(state, end);
    start(worker, number);
  }

  // Runs the case in a new process.
  End repeat(const Case& one, double patience) {
    Worker worker(shared_.states[kMaxJobs]);
    worker.state().one = one;
    worker.start([&] { repeat_alone(shared_); });
    End end;
    while (!worker.ended(patience, end)) poll(nullptr, 0, 1);
    return end;
  }

  void record_failure(const WorkerState& state, const End& end) {
    Progress& progress = shared_.progress[state.function];
    const char* name = functions()[static_cast<size_t>(state.function)].name;
    const End again = repeat(state.one, options_.patience);
    if (end.kind == End::Kind::kHang && again.kind == End::Kind::kDone) {
      printf("fuzzer: %s was slow once\n", name);
      return;
    }
    Case one = state.one;
    End shown = end;
    if (progress.failures() == 0 && again.kind != End::Kind::kDone) {
      const double patience = std::min(options_.patience, 3.0);
      shrink(one, options_.attempts, [&](const Case& simpler) {
        const End found = repeat(simpler, patience);
        if (found.kind == again.kind) shown = found;
        return found.kind == again.kind;
      });
    }
    print_case(one, state.round, text_of(shown, state.outcome) + (again.kind == End::Kind::kDone ? alone_text(state) : ""));
    int64_t& count = end.kind == End::Kind::kHang      ? progress.hangs
                     : end.kind == End::Kind::kOutside ? progress.outside
                                                       : progress.crashes;
    ++count;
  }

  // Names the earlier calls of the process, one of which may have damaged it.
  static std::string alone_text(const WorkerState& state) {
    std::string result = " (not when repeated alone; before it ran";
    for (const int function : state.before) {
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

bool run_all(const Options& options) { return Fuzzer(options).run(); }
bool run_call(const Options& options, const Case& one) { return Fuzzer(options).run_call(one); }
bool run_one(const Options& options, int function, int64_t round) { return Fuzzer(options).run_one(function, round); }

}  // namespace softnpu::fuzz
