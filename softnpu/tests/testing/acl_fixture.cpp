#include "testing/acl_fixture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "error_names.h"

namespace softnpu::test {
namespace {

constexpr auto kGateLimit = kPatience + 30s;  // a gate that is not opened must not hang the run

// Keeps the functions of callbacks for ever: a callback may be dropped without notice, so that its end is not known.
std::function<void()>* keep(std::function<void()> function) {
  static std::mutex mutex;
  static auto* kept = new std::list<std::function<void()>>;
  std::lock_guard guard(mutex);
  return &kept->emplace_back(std::move(function));
}

std::atomic<int> g_live_tasks{0};

struct TaskBody {
  explicit TaskBody(std::function<aclError(char*)> function) : run(std::move(function)) { ++g_live_tasks; }
  ~TaskBody() { --g_live_tasks; }
  std::function<aclError(char*)> run;
};

// Kinds are never destroyed: an error may name a task long after it ran.
const SoftnpuTaskKind& kind_of(const Task& task) {
  static std::mutex mutex;
  static auto* kinds = new std::map<std::pair<std::string, uint32_t>, SoftnpuTaskKind>;
  std::lock_guard guard(mutex);
  const auto [entry, is_new] = kinds->try_emplace({task.name, task.flags});
  if (is_new) {
    entry->second = {.name = entry->first.first.c_str(),
                     .run = [](void* payload, char* message) { return (*static_cast<TaskBody**>(payload))->run(message); },
                     .release = [](void* payload) { delete *static_cast<TaskBody**>(payload); },
                     .ready = nullptr,
                     .flags = task.flags,
                     .visit = nullptr};
  }
  return entry->second;
}

template <typename Owner>
Owner owned(const char* what, aclError code, void* handle) {
  if (code == ACL_SUCCESS) return Owner(handle);
  ADD_FAILURE() << what << " could not be created: " << code_text(code) << "\n" << recent_error();
  return Owner();
}

std::vector<std::string> child_environment(const std::vector<std::string>& changes) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> result = changes;
  result.push_back("ACL_TEST_CHILD=1");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = name_of(*entry);
    const bool is_changed = std::any_of(result.begin(), result.end(), [&](const auto& other) { return name_of(other) == name; });
    if (!is_changed && !name.starts_with("GTEST_")) result.emplace_back(*entry);
  }
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// Reads until the other end is closed. False if that takes too long.
bool read_all(int file, milliseconds limit, std::string& text) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd request{.fd = file, .events = POLLIN, .revents = 0};
    if (left <= 0 || poll(&request, 1, int(left)) == 0) return false;
    char part[4096];
    const ssize_t length = read(file, part, sizeof part);
    if (length <= 0) return true;
    text.append(part, size_t(length));
  }
}

}  // namespace

void AclFixture::SetUp() {
  const aclError code = aclInit(nullptr);
  ASSERT_TRUE(code == ACL_SUCCESS || code == ACL_ERROR_REPEAT_INITIALIZE) << code_text(code) << "\n" << recent_error();
  recent_error();
  ASSERT_ACL(aclrtSetDevice(0));
  ASSERT_ACL(aclrtGetCurrentContext(&context_));
  aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

void AclFixture::TearDown() {
  if (context_ == nullptr) return;
  recent_error();
  ASSERT_ACL(aclrtSetCurrentContext(context_));
  EXPECT_ACL(aclrtSynchronizeDevice());
  EXPECT_ACL(aclrtResetDevice(0));
  recent_error();
}

std::string recent_error() {
  const char* message = aclGetRecentErrMsg();
  return message == nullptr ? std::string() : std::string(message);
}

std::string code_text(aclError code) {
  const char* name = error_name(code);
  return std::string(name == nullptr ? "unnamed code" : name) + " (" + std::to_string(code) + ")";
}

::testing::AssertionResult succeeds(const char* expression, aclError code) {
  if (code == ACL_SUCCESS) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expression << "\n  gives " << code_text(code) << "\n  " << recent_error();
}

::testing::AssertionResult fails_with(const char* /*expected_text*/, const char* expression, aclError expected, aclError code) {
  if (code == expected) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expression << "\n  gives   " << code_text(code) << "\n  not     " << code_text(expected)
                                       << "\n  " << recent_error();
}

::testing::AssertionResult is_refused(const char* expression, aclError code) {
  const std::string message = recent_error();
  if (code != ACL_SUCCESS && !message.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expression << "\n  gives " << code_text(code) << " with the message '" << message
                                       << "'";
}

::testing::AssertionResult contains(const char* text_expression, const char* /*words_expression*/, const std::string& text,
                                    const std::string& words) {
  if (text.find(words) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << text_expression << "\n  is      '" << text << "'\n  without '" << words << "'";
}

Stream make_stream(uint32_t priority, uint32_t flags) {
  aclrtStream stream = nullptr;
  const aclError code = aclrtCreateStreamWithConfig(&stream, priority, flags);
  return owned<Stream>("the stream", code, stream);
}

Event make_event(uint32_t flags) {
  aclrtEvent event = nullptr;
  const aclError code = aclrtCreateEventExWithFlag(&event, flags);
  return owned<Event>("the event", code, event);
}

Context make_context(int32_t device) {
  aclrtContext context = nullptr;
  const aclError code = aclrtCreateContext(&context, device);
  return owned<Context>("the context", code, context);
}

DeviceBuffer make_device_buffer(size_t bytes) {
  void* memory = nullptr;
  const aclError code = aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  return owned<DeviceBuffer>("the device buffer", code, memory);
}

PinnedBuffer make_pinned_buffer(size_t bytes) {
  void* memory = nullptr;
  const aclError code = aclrtMallocHost(&memory, bytes);
  return owned<PinnedBuffer>("the pinned buffer", code, memory);
}

struct Flag::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_set = false;
};

Flag::Flag() : state_(std::make_shared<State>()) {}

void Flag::set() const {
  std::lock_guard guard(state_->mutex);
  state_->is_set = true;
  state_->changed.notify_all();
}

bool Flag::is_set() const { return within(0ms); }

bool Flag::within(milliseconds span) const {
  std::unique_lock lock(state_->mutex);
  // The system clock: TSan of g++ 12 does not know waits on the steady clock.
  return state_->changed.wait_until(lock, std::chrono::system_clock::now() + span, [&] { return state_->is_set; });
}

aclError run_on(aclrtStream stream, std::function<void()> function) {
  return aclrtLaunchHostFunc(
      stream, [](void* kept) { (*static_cast<std::function<void()>*>(kept))(); }, keep(std::move(function)));
}

Flag signal_when_run(aclrtStream stream) {
  Flag flag;
  EXPECT_ACL(run_on(stream, [flag] { flag.set(); }));
  return flag;
}

Gate::Gate(aclrtStream stream) {
  EXPECT_ACL(run_on(stream, [entered = entered_, opened = opened_, left = left_] {
    entered.set();
    opened.within(kGateLimit);
    left.set();
  }));
}

bool eventually(const std::function<bool()>& condition, milliseconds span) {
  const auto end = std::chrono::steady_clock::now() + span;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

bool falls_asleep(int thread) {
  for (int look = 0; look < 20; ++look) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string number, name, state;
    file >> number >> name >> state;
    if (state != "S") return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

const SoftnpuDriver* driver() {
  static const SoftnpuDriver* const instance = []() -> const SoftnpuDriver* {
    auto* const get = reinterpret_cast<decltype(&softnpuDriver)>(dlsym(RTLD_DEFAULT, "softnpuDriver"));
    return get == nullptr ? nullptr : get(SOFTNPU_DRIVER_VERSION);
  }();
  return instance;
}

aclError launch(aclrtStream stream, Task task) {
  const SoftnpuTaskKind& kind = kind_of(task);
  auto body = std::make_unique<TaskBody>(std::move(task.run));
  TaskBody* const payload = body.get();
  const aclError code = driver()->launch(stream, &kind, &payload, sizeof payload, task.cost);
  if (code == ACL_SUCCESS) static_cast<void>(body.release());
  return code;
}

Task failing_task(const char* name, aclError code, std::string message) {
  return {.run =
              [code, message = std::move(message)](char* text) {
                std::snprintf(text, SOFTNPU_TASK_MESSAGE, "%s", message.c_str());
                return code;
              },
          .name = name};
}

int live_tasks() { return g_live_tasks; }

Child run_child(const std::string& filter, const std::vector<std::string>& environment, milliseconds limit) {
  std::vector<std::string> arguments = {"softnpu_tests", "--gtest_color=no", "--gtest_filter=" + filter};
  std::vector<std::string> variables = child_environment(environment);
  int pipe_ends[2];
  Child child;
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return child;

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  pid_t pid = -1;
  const int problem =
      posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, pointers_to(arguments).data(), pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (problem == 0) {
    child.timed_out = !read_all(pipe_ends[0], limit, child.output);
    if (child.timed_out) kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    child.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  close(pipe_ends[0]);
  return child;
}

::testing::AssertionResult child_passes(const char* expression, const Child& child) {
  if (child.passed()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expression << (child.timed_out ? "\n  ran into its time limit" : "") << "\n  exit code "
                                       << child.exit_code << "\n"
                                       << child.output;
}

}  // namespace softnpu::test
