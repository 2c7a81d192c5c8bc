// Random sequences of calls with good and bad arguments, against a model of what must succeed and what must fail.
//
// Handles and addresses are live, destroyed, of the wrong kind, null or garbage. No call may crash or hang, and every failure has
// a text. Sequence i of a run with seed s is sequence 0 of a run with seed s + i, so that
//
//   SOFTNPU_FUZZ_SEED=1234 SOFTNPU_FUZZ_SEQUENCES=1 softnpu_tests --gtest_filter='FuzzTest.*'
//
// repeats the one that a failure, or a crash, names.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "testing/fuzz_world.h"

namespace softnpu::test {
namespace {

constexpr int kCallsPerSequence = 60;

class Sequence : private FuzzWorld {
 public:
  Sequence(uint64_t seed, FuzzDevices devices) : FuzzWorld(seed, devices) {}

  void run() {
    create_stream();
    create_event();
    allocate();
    allocate_host();
    for (int call = 0; call < kCallsPerSequence && !::testing::Test::HasFailure(); ++call) one_call();
    if (!::testing::Test::HasFailure()) clean_up();
  }

  std::string calls() const { return calls_.str(); }
  // No other thread uses the library.
  void set_alone() { is_alone_ = true; }

 private:
  bool is_alone_ = false;

  // Devices and contexts

  void set_device() {
    const bool is_good = !chance(20);
    const size_t index = below(2);
    const int32_t device = is_good ? devices_[index] : index == 0 ? -1 : 1000;
    if (!check(good_if(is_good), aclrtSetDevice(device), "aclrtSetDevice ", device)) return;
    ++retains_[index];
    EXPECT_ACL(aclrtGetCurrentContext(&current_));
    const bool is_known =
        std::any_of(contexts_.begin(), contexts_.end(), [&](const auto& one) { return one.handle == current_; });
    if (!is_known) contexts_.push_back({current_, device, true});
  }

  // The test itself holds the first device.
  void reset_device() {
    const bool is_good = chance(80);
    const int32_t device = is_good ? devices_[1] : -7;
    if (is_good && retains_[1] == 1) drain();
    const Fate fate = good_if(is_good && retains_[1] > 0);
    if (!check(fate, aclrtResetDevice(device), "aclrtResetDevice ", device)) return;
    if (--retains_[1] > 0) return;
    for (size_t i = 1; i < contexts_.size(); ++i) {
      if (contexts_[i].device == devices_[1] && contexts_[i].is_primary) return forget_context(i);
    }
  }

  void create_context() {
    const bool is_good = !chance(15);
    const int32_t device = is_good ? devices_[below(2)] : 999;
    void* made = nullptr;
    if (!check(good_if(is_good), aclrtCreateContext(&made, device), "aclrtCreateContext ", device)) return;
    contexts_.push_back({made, device, false});
    current_ = made;
  }

  void destroy_context() {
    const Pick pick = context();
    drain();
    const auto found =
        std::find_if(contexts_.begin(), contexts_.end(), [&](const auto& one) { return one.handle == pick.value; });
    const bool is_primary = found != contexts_.end() && found->is_primary;
    const Fate fate = is_primary ? Fate::kFails : pick.fate;
    if (check(fate, aclrtDestroyContext(pick.value), "aclrtDestroyContext ", pick.value)) {
      forget_context(static_cast<size_t>(found - contexts_.begin()));
    }
  }

  void set_context() {
    const Pick pick = context();
    if (check(pick.fate, aclrtSetCurrentContext(pick.value), "aclrtSetCurrentContext ", pick.value)) current_ = pick.value;
  }

  void ask_device() {
    int32_t device = -1;
    void* context = nullptr;
    check(good_if(current_ != nullptr), aclrtGetDevice(&device), "aclrtGetDevice");
    check(good_if(current_ != nullptr), aclrtGetCurrentContext(&context), "aclrtGetCurrentContext");
    if (current_ != nullptr) {
      EXPECT_EQ(context, current_);
    }
    check(Fate::kFails, aclrtGetDevice(nullptr), "aclrtGetDevice null");
  }

  // Streams and events

  void create_stream() {
    void* made = nullptr;
    const uint32_t priority = chance(10) ? 8 : static_cast<uint32_t>(below(8));
    const Fate fate = good_if(priority < 8 && current_ != nullptr);
    if (check(fate, aclrtCreateStreamWithConfig(&made, priority, 3), "aclrtCreateStreamWithConfig ", priority)) {
      streams_.push_back({made, current_});
    }
  }

  void destroy_stream() {
    const Pick pick = stream();
    const bool force = chance(30);
    if (force && (!pinned_.empty() || !kRacesOnMemory))
      drain();  // a copy that still runs would meet pinned memory that is freed later
    const aclError code = force ? aclrtDestroyStreamForce(pick.value) : aclrtDestroyStream(pick.value);
    if (!check(pick.fate, code, force ? "aclrtDestroyStreamForce " : "aclrtDestroyStream ", pick.value)) return;
    std::erase_if(streams_, [&](const StreamModel& one) { return one.handle == pick.value; });
    destroyed_.push_back(pick.value);
  }

  void synchronize() {
    const Pick pick = stream_or_default();
    switch (below(4)) {
      case 0:
        check(good_if(current_ != nullptr), aclrtSynchronizeDevice(), "aclrtSynchronizeDevice");
        return;
      case 1:
        check(pick.fate, aclrtSynchronizeStream(pick.value), "aclrtSynchronizeStream ", pick.value);
        return;
      case 2:
        check(pick.fate, aclrtSynchronizeStreamWithTimeout(pick.value, 20'000), "aclrtSynchronizeStreamWithTimeout ", pick.value);
        return;
      default:
        check(Fate::kFails, aclrtSynchronizeStreamWithTimeout(pick.value, -2), "aclrtSynchronizeStreamWithTimeout -2");
    }
  }

  void ask_stream() {
    const Pick pick = stream_or_default();
    aclrtStreamStatus status;
    int32_t id = -1;
    check(pick.fate, aclrtStreamQuery(pick.value, &status), "aclrtStreamQuery ", pick.value);
    check(pick.fate, aclrtStreamGetId(pick.value, &id), "aclrtStreamGetId ", pick.value);
    check(Fate::kFails, aclrtStreamQuery(pick.value, nullptr), "aclrtStreamQuery null");
  }

  void change_stream() {
    const Pick pick = stream_or_default();
    const uint64_t mode = below(4);
    check(both(pick.fate, good_if(mode < 2)), aclrtSetStreamFailureMode(pick.value, mode), "aclrtSetStreamFailureMode ", mode);
    const auto attribute = static_cast<aclrtStreamAttr>(below(8));
    aclrtStreamAttrValue value = {};
    check(both(pick.fate, good_if(attribute >= 1 && attribute <= 5)), aclrtGetStreamAttribute(pick.value, attribute, &value),
          "aclrtGetStreamAttribute ", attribute);
    if (chance(10)) check(pick.fate, aclrtStreamAbort(pick.value), "aclrtStreamAbort ", pick.value);
  }

  void create_event() {
    EventModel made;
    made.is_extended = chance(60);
    constexpr uint32_t kFlags[] = {ACL_EVENT_SYNC, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, ACL_EVENT_TIME_LINE, 0, 0x8000};
    made.flags = kFlags[below(std::size(kFlags))];
    const Fate fate = good_if(made.flags != 0 && made.flags != 0x8000 && current_ != nullptr);
    const auto create = made.is_extended ? aclrtCreateEventExWithFlag : aclrtCreateEventWithFlag;
    const char* const name = made.is_extended ? "aclrtCreateEventExWithFlag " : "aclrtCreateEventWithFlag ";
    if (check(fate, create(&made.handle, made.flags), name, made.flags)) events_.push_back(made);
  }

  void destroy_event() {
    const Pick pick = event();
    if (!check(pick.fate, aclrtDestroyEvent(pick.value), "aclrtDestroyEvent ", pick.value)) return;
    std::erase_if(events_, [&](const EventModel& one) { return one.handle == pick.value; });
    destroyed_.push_back(pick.value);
  }

  void record_or_wait() {
    const Pick mark = event();
    const Pick where = stream_or_default();
    const Fate fate = both(mark.fate, where.fate);
    if (chance(50)) {
      check(fate, aclrtRecordEvent(mark.value, where.value), "aclrtRecordEvent ", mark.value, " ", where.value);
    } else {
      check(fate, aclrtStreamWaitEvent(where.value, mark.value), "aclrtStreamWaitEvent ", where.value, " ", mark.value);
    }
  }

  void ask_event() {
    const Pick pick = event();
    const Pick where = stream_or_default();
    const EventModel* model = find_event(pick.value);
    const bool is_plain = model != nullptr && !model->is_extended;
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus status;
    aclrtEventWaitStatus waited;
    check(pick.fate, aclrtQueryEventStatus(pick.value, &recorded), "aclrtQueryEventStatus ", pick.value);
    check(both(pick.fate, good_if(is_plain)), aclrtQueryEvent(pick.value, &status), "aclrtQueryEvent ", pick.value);
    check(both(pick.fate, good_if(is_plain)), aclrtQueryEventWaitStatus(pick.value, &waited), "aclrtQueryEventWaitStatus ",
          pick.value);
    check(pick.fate, aclrtSynchronizeEvent(pick.value), "aclrtSynchronizeEvent ", pick.value);
    const bool can_reset = is_plain && (model->flags & ACL_EVENT_SYNC) != 0;
    check(both(both(pick.fate, where.fate), good_if(can_reset)), aclrtResetEvent(pick.value, where.value), "aclrtResetEvent ",
          pick.value, " ", where.value);
  }

  void ask_time() {
    const Pick start = event();
    const Pick end = event();
    const auto may = [&](const Pick& pick) {
      const EventModel* model = find_event(pick.value);
      const bool has_time = model != nullptr && (model->flags & ACL_EVENT_TIME_LINE) != 0;
      return has_time ? Fate::kUnknown : Fate::kFails;
    };
    float milliseconds = 0;
    uint64_t timestamp = 0;
    check(both(may(start), may(end)), aclrtEventElapsedTime(&milliseconds, start.value, end.value), "aclrtEventElapsedTime ",
          start.value, " ", end.value);
    check(may(start), aclrtEventGetTimestamp(start.value, &timestamp), "aclrtEventGetTimestamp ", start.value);
  }

  // Memory

  void allocate() {
    const bool is_bad = chance(10);
    const size_t bytes = is_bad ? bad_size() : size();
    void* block = nullptr;
    const Fate fate = good_if(!is_bad && current_ != nullptr);
    if (check(fate, aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc ", bytes)) {
      blocks_[reinterpret_cast<uintptr_t>(block)] = bytes;
    }
  }

  void free() {
    if (!blocks_.empty() && chance(60)) {
      const auto block = std::next(blocks_.begin(), static_cast<ptrdiff_t>(below(blocks_.size())));
      if (block->second > 1 && chance(20)) {
        check(Fate::kFails, aclrtFree(pointer(block->first + 1)), "aclrtFree inside ", pointer(block->first));
        return;
      }
      check(Fate::kSucceeds, aclrtFree(pointer(block->first)), "aclrtFree ", pointer(block->first));
      freed_.push_back(block->first);
      blocks_.erase(block);
      return;
    }
    if (!freed_.empty() && chance(50)) {
      const uintptr_t again = any(freed_);
      if (blocks_.contains(again)) return;
      check(Fate::kFails, aclrtFree(pointer(again)), "aclrtFree again ", pointer(again));
      return;
    }
    void* const bad = chance(30) ? host_.data() : chance(30) ? nullptr : garbage();
    check(Fate::kFails, aclrtFree(bad), "aclrtFree ", bad);
  }

  void allocate_host() {
    const bool is_bad = chance(10);
    const size_t bytes = is_bad ? bad_size() : size();
    void* block = nullptr;
    if (check(good_if(!is_bad), aclrtMallocHost(&block, bytes), "aclrtMallocHost ", bytes)) {
      pinned_[reinterpret_cast<uintptr_t>(block)] = bytes;
    }
  }

  void free_host() {
    if (pinned_.empty() || chance(30)) {
      void* const bad = chance(30) ? host_.data() : chance(30) ? nullptr : garbage();
      check(Fate::kFails, aclrtFreeHost(bad), "aclrtFreeHost ", bad);
      return;
    }
    drain();  // copies that are under way would meet memory that is gone
    const uintptr_t block = pinned_.begin()->first;
    check(Fate::kSucceeds, aclrtFreeHost(pointer(block)), "aclrtFreeHost ", pointer(block));
    // Another thread may get the same address meanwhile.
    if (is_alone_) check(Fate::kFails, aclrtFreeHost(pointer(block)), "aclrtFreeHost again ", pointer(block));
    pinned_.erase(pinned_.begin());
  }

  void register_host() {
    if (is_registered_) {
      check(Fate::kSucceeds, aclrtHostUnregister(registrable()), "aclrtHostUnregister");
      check(Fate::kFails, aclrtHostUnregister(registrable()), "aclrtHostUnregister again");
      is_registered_ = false;
      return;
    }
    check(Fate::kFails, aclrtHostRegisterV2(at(registrable(), 1), kPage, 0), "aclrtHostRegisterV2 unaligned");
    check(Fate::kFails, aclrtHostRegisterV2(registrable(), bad_size() | 0x8000000000000000, 0), "aclrtHostRegisterV2 too large");
    is_registered_ = check(Fate::kSucceeds, aclrtHostRegisterV2(registrable(), kPage, 0), "aclrtHostRegisterV2");
  }

  Fate fate_of_copy(const Range& to, const Range& from, size_t bytes) const {
    const auto begin = [](const Range& range) { return reinterpret_cast<uintptr_t>(range.address); };
    const bool overlaps = begin(to) < begin(from) + bytes && begin(from) < begin(to) + bytes;
    return both(both(to.fate, from.fate), good_if(!overlaps));
  }

  void copy() {
    settle();
    const Range to = range();
    const Range from = range();
    size_t bytes = std::max(to.bytes, from.bytes);
    if (to.fate != Fate::kFails && from.fate != Fate::kFails) bytes = std::min(to.bytes, from.bytes);
    const bool has_room = chance(90);
    const size_t room = has_room ? bytes : bytes - 1;
    Fate fate = both(both(fate_of_copy(to, from, bytes), good_if(has_room)), needs_no_stream());
    const auto kind = static_cast<aclrtMemcpyKind>(below(9));
    if (chance(40)) {
      check(fate, aclrtMemcpy(to.address, room, from.address, bytes, kind), "aclrtMemcpy ", to.address, " ", from.address, " ",
            bytes);
      return;
    }
    const Pick where = stream_or_default();
    fate = both(both(fate, where.fate), fate_of_kind(to, from, kind));
    check(fate, aclrtMemcpyAsync(to.address, room, from.address, bytes, kind, where.value), "aclrtMemcpyAsync ", to.address, " ",
          from.address, " ", bytes, " kind ", kind, " on ", where.value);
  }

  // Of an asynchronous copy: its kind has to say what the addresses say. One device or two is more than the model knows.
  static Fate fate_of_kind(const Range& to, const Range& from, aclrtMemcpyKind kind) {
    const bool to_device = to.memory == Memory::kDevice;
    const bool from_device = from.memory == Memory::kDevice;
    switch (kind) {
      case ACL_MEMCPY_HOST_TO_DEVICE:
      case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
        return good_if(to_device && !from_device);
      case ACL_MEMCPY_DEVICE_TO_HOST:
        return good_if(!to_device && from_device);
      case ACL_MEMCPY_DEVICE_TO_DEVICE:
        return good_if(to_device && from_device);
      case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
      case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
        return to_device && from_device ? Fate::kUnknown : Fate::kFails;
      case ACL_MEMCPY_DEFAULT:
        return good_if(to_device || from_device);
      default:
        return Fate::kFails;
    }
  }

  void copy_rows() {
    settle();
    const Range to = device_range();
    const size_t width = 1 + below(64);
    const size_t pitch = below(100);
    const size_t height = chance(10) ? SIZE_MAX : below(20);
    const bool is_impossible = to.memory == Memory::kNone || height == 0 || height == SIZE_MAX || (height > 1 && pitch < width);
    check(is_impossible ? Fate::kFails : Fate::kUnknown,
          aclrtMemcpy2d(to.address, pitch, host_.data(), pitch, width, height, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy2d ",
          to.address, " ", pitch, " ", width, "x", height);
  }

  void fill() {
    settle();
    const Range to = device_range();
    const Pick where = stream_or_default();
    const bool has_room = chance(90);
    const size_t room = has_room ? to.bytes : to.bytes - 1;
    const Fate fate = both(both(to.fate, good_if(has_room)), needs_no_stream());
    if (chance(50)) {
      check(fate, aclrtMemset(to.address, room, 5, to.bytes), "aclrtMemset ", to.address, " ", to.bytes);
    } else {
      check(both(fate, where.fate), aclrtMemsetAsync(to.address, room, 5, to.bytes, where.value), "aclrtMemsetAsync ", to.address,
            " ", to.bytes, " on ", where.value);
    }
  }

  void ask_memory() {
    const Range range = device_range();
    aclrtPtrAttributes attributes;
    const bool is_live = range.memory == Memory::kDevice && range.fate != Fate::kUnknown;
    check(is_live                    ? Fate::kSucceeds
          : range.address == nullptr ? Fate::kFails
                                     : Fate::kUnknown,
          aclrtPointerGetAttributes(range.address, &attributes), "aclrtPointerGetAttributes ", range.address);
    size_t free = 0;
    size_t total = 0;
    check(good_if(current_ != nullptr), aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), "aclrtGetMemInfo");
    check(Fate::kFails, aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &total), "aclrtGetMemInfo null");
  }

  void use_values() {
    settle();
    const Range to = device_range();
    const Pick where = stream_or_default();
    const bool is_possible = reinterpret_cast<uintptr_t>(to.address) % 8 == 0 && to.memory == Memory::kDevice;
    const Fate fate = both(where.fate, is_possible ? Fate::kUnknown : Fate::kFails);
    check(fate, aclrtValueWrite(to.address, 1, 0, where.value), "aclrtValueWrite ", to.address, " on ", where.value);
    check(both(both(to.fate, where.fate), Fate::kUnknown),
          aclrtReduceAsync(to.address, to.address, to.bytes, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_INT8, where.value, nullptr),
          "aclrtReduceAsync ", to.address);
  }

  // Host functions and what is not there

  void call_host() {
    const Pick where = stream_or_default();
    check(where.fate,
          aclrtLaunchHostFunc(
              where.value, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &called_),
          "aclrtLaunchHostFunc ", where.value);
    check(Fate::kFails, aclrtLaunchHostFunc(where.value, nullptr, nullptr), "aclrtLaunchHostFunc null");
    check(Fate::kFails, aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_BLOCK, where.value),
          "aclrtLaunchCallback unsubscribed");
    check(Fate::kFails, aclrtProcessReport(0), "aclrtProcessReport unsubscribed");
  }

  void call_what_is_refused() {
    aclmdlRI model = nullptr;
    check(Fate::kFails, aclrtFreePhysical(garbage()), "aclrtFreePhysical");
    check(Fate::kFails, aclrtUnmapMem(garbage()), "aclrtUnmapMem");
    check(Fate::kFails, aclmdlRICaptureEnd(stream_or_default().value, &model), "aclmdlRICaptureEnd");
    check(Fate::kFails, aclmdlRIExecuteAsync(garbage(), nullptr), "aclmdlRIExecuteAsync");
  }

  void one_call() {
    using Call = void (Sequence::*)();
    struct Weighted {
      Call call;
      size_t weight;
    };
    static constexpr Weighted kCalls[] = {
        {&Sequence::set_device, 2},     {&Sequence::reset_device, 1},
        {&Sequence::create_context, 2}, {&Sequence::destroy_context, 2},
        {&Sequence::set_context, 4},    {&Sequence::ask_device, 1},
        {&Sequence::create_stream, 5},  {&Sequence::destroy_stream, 3},
        {&Sequence::synchronize, 4},    {&Sequence::ask_stream, 2},
        {&Sequence::change_stream, 2},  {&Sequence::create_event, 5},
        {&Sequence::destroy_event, 3},  {&Sequence::record_or_wait, 12},
        {&Sequence::ask_event, 4},      {&Sequence::ask_time, 2},
        {&Sequence::allocate, 8},       {&Sequence::free, 5},
        {&Sequence::allocate_host, 3},  {&Sequence::free_host, 2},
        {&Sequence::register_host, 1},  {&Sequence::copy, 16},
        {&Sequence::copy_rows, 3},      {&Sequence::fill, 6},
        {&Sequence::ask_memory, 2},     {&Sequence::use_values, 3},
        {&Sequence::call_host, 3},      {&Sequence::call_what_is_refused, 1},
    };
    static const size_t kTotal = [] {
      size_t total = 0;
      for (const Weighted& one : kCalls) total += one.weight;
      return total;
    }();
    size_t chosen = below(kTotal);
    for (const Weighted& one : kCalls) {
      if (chosen < one.weight) return (this->*one.call)();
      chosen -= one.weight;
    }
  }

  void clean_up() {
    drain();
    for (const StreamModel& one : streams_) {
      EXPECT_ACL(aclrtSetCurrentContext(one.context));
      EXPECT_ACL(aclrtDestroyStream(one.handle));
    }
    for (const EventModel& one : events_) EXPECT_ACL(aclrtDestroyEvent(one.handle));
    for (const auto& [block, bytes] : blocks_) EXPECT_ACL(aclrtFree(pointer(block)));
    for (const auto& [block, bytes] : pinned_) EXPECT_ACL(aclrtFreeHost(pointer(block)));
    if (is_registered_) register_host();
    for (const ContextModel& one : contexts_) {
      if (one.is_primary) continue;
      EXPECT_ACL(aclrtDestroyContext(one.handle));
    }
    for (const size_t index : {0, 1}) {
      for (; retains_[index] > 0; --retains_[index]) EXPECT_ACL(aclrtResetDevice(devices_[index]));
    }
    EXPECT_ACL(aclrtSetCurrentContext(contexts_[0].handle));
  }
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kNamesCrashes = false;  // the sanitizer reports them itself
#else
constexpr bool kNamesCrashes = true;
#endif

char g_reproduction[128];

// Says which sequence crashed, then lets the crash take its course.
void name_the_sequence(int signal_number) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, g_reproduction, sizeof g_reproduction);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoull(value, nullptr, 10);
}

using FuzzTest = AclFixture;

TEST_F(FuzzTest, SequencesOfCallsDoWhatTheModelSays) {
  uint32_t devices = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "needs two devices";
  const uint64_t seed = number_from_environment("SOFTNPU_FUZZ_SEED", 1);
  const uint64_t count = number_from_environment("SOFTNPU_FUZZ_SEQUENCES", 1000);
  std::printf("seed %lu, %lu sequences\n", seed, count);
  for (const int crash : {SIGSEGV, SIGBUS, SIGABRT}) {
    if (kNamesCrashes) signal(crash, name_the_sequence);
  }
  for (uint64_t i = 0; i < count && !HasFailure(); ++i) {
    std::snprintf(g_reproduction, sizeof g_reproduction, "\nsequence %lu: SOFTNPU_FUZZ_SEED=%lu SOFTNPU_FUZZ_SEQUENCES=1\n", i,
                  seed + i);
    Sequence sequence(seed + i, {});
    sequence.set_alone();
    sequence.run();
    if (HasFailure()) ADD_FAILURE() << g_reproduction << sequence.calls();
  }
  for (const int crash : {SIGSEGV, SIGBUS, SIGABRT}) {
    if (kNamesCrashes) signal(crash, SIG_DFL);
  }
}

// Each thread has two devices, so that the model knows what must succeed; handles, slots and host memory come from one store.
TEST_F(FuzzTest, ThreadsOnDifferentDevicesDoNotMeet) {
  uint32_t devices = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&devices));
  if (devices < 4) GTEST_SKIP() << "needs four devices";
  const auto threads = static_cast<int32_t>(std::min<uint32_t>(4, devices / 2));
  const uint64_t seed = number_from_environment("SOFTNPU_FUZZ_SEED", 1);
  const uint64_t count = number_from_environment("SOFTNPU_FUZZ_SEQUENCES", 1000) / 4 + 1;
  std::vector<std::thread> workers;
  for (int32_t thread = 0; thread < threads; ++thread) {
    workers.emplace_back([=] {
      const FuzzDevices own{2 * thread, 2 * thread + 1};
      EXPECT_ACL(aclrtSetDevice(own.home));
      for (uint64_t i = 0; i < count && !HasFailure(); ++i) {
        Sequence sequence(seed + i * static_cast<uint64_t>(threads) + static_cast<uint64_t>(thread), own);
        sequence.run();
        if (HasFailure()) ADD_FAILURE() << "thread " << thread << ", sequence " << i << "\n" << sequence.calls();
      }
      EXPECT_ACL(aclrtResetDevice(own.home));
    });
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace
}  // namespace softnpu::test
