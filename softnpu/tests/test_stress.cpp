// Threads, streams, events, copies, frees and graphs, compared with a model.
//
// One stream at a time owns a buffer, and the model knows its contents at each point of that stream. A buffer gets another owner
// only through an event: the old owner records it, and the new one, of the same thread or of another, waits for it. Contents are
// copied to the host from time to time, in the order of the owner, and compared with the model.
//
// Threads also capture graphs that copy an input to an output, share them, replay them on their own streams between two buffers,
// and destroy them while the last replay may still run.
//
// SOFTNPU_STRESS_SECONDS is the duration. SOFTNPU_STRESS_SEED repeats a run, except for the timing of threads.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

constexpr int kThreads = 3;
constexpr size_t kStreams = 4;
constexpr size_t kBuffers = 10;
constexpr size_t kMostChecks = 32;
constexpr size_t kMostPipelines = 6;
constexpr size_t kWords[] = {16, 1000, 20'000, 300'000};  // copies of small buffers run in the calling thread, others are queued

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoull(value, nullptr, 10);
}

// Word i of a buffer is first + i * step.
struct Contents {
  uint32_t first = 0;
  uint32_t step = 0;

  void write(uint32_t* words, size_t count) const {
    for (size_t i = 0; i < count; ++i) words[i] = first + static_cast<uint32_t>(i) * step;
  }
  // The index of the first word that differs, or `count`.
  size_t compare(const uint32_t* words, size_t count) const {
    size_t i = 0;
    while (i < count && words[i] == first + static_cast<uint32_t>(i) * step) ++i;
    return i;
  }
};

struct Buffer {
  DeviceBuffer memory;
  size_t words = 0;
  Contents contents;
  size_t owner = 0;  // index of a stream of its thread

  size_t bytes() const { return words * sizeof(uint32_t); }
};

// A buffer for another thread, which may use it after `ready`.
struct Parcel {
  Buffer buffer;
  Event ready;
};

// A graph that copies `input` to `middle` and `middle` to `output`, on two streams. One thread at a time uses it, after `used`.
struct Pipeline {
  Owned<aclmdlRIDestroy> graph;
  size_t words = 0;
  DeviceBuffer input, middle, output;
  Event used;

  size_t bytes() const { return words * sizeof(uint32_t); }
};

// Destroys the graph, and its memory after the last replay.
void retire(Pipeline pipeline) {
  pipeline.graph = {};
  EXPECT_ACL(aclrtSynchronizeEvent(pipeline.used));
}

// The parcels and graphs that threads exchange, and the flag that ends the run.
struct Shared {
  std::mutex mutex;
  std::deque<Parcel> parcels;
  std::deque<Pipeline> pipelines;
  std::atomic<uint64_t> replays{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> steps{0};
};

void verify(const uint32_t* words, size_t count, const Contents& expected) {
  const size_t wrong = expected.compare(words, count);
  if (wrong == count) return;
  ADD_FAILURE() << "word " << wrong << " of " << count << " is " << words[wrong] << "; the first one should be " << expected.first
                << ", the step " << expected.step;
}

// Frees the parcels and graphs that no thread took.
void verify_parcels(Shared& shared) {
  for (const Parcel& parcel : shared.parcels) {
    const Buffer& buffer = parcel.buffer;
    std::vector<uint32_t> words(buffer.words);
    EXPECT_ACL(aclrtSynchronizeEvent(parcel.ready));
    EXPECT_ACL(aclrtMemcpy(words.data(), buffer.bytes(), buffer.memory, buffer.bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
    verify(words.data(), words.size(), buffer.contents);
  }
}

class Worker {
 public:
  Worker(Shared& shared, uint64_t seed) : shared_(shared), random_(static_cast<uint32_t>(seed)) {
    for (size_t i = 0; i < kStreams; ++i) streams_.push_back(make_stream(static_cast<uint32_t>(i)));
    for (size_t i = 0; i < kBuffers; ++i) buffers_.push_back(fresh());
  }

  void run() {
    while (!shared_.stop && !::testing::Test::HasFailure()) {
      step();
      ++shared_.steps;
    }
    for (Buffer& buffer : buffers_) fetch(buffer);
    verify_all();
  }

 private:
  struct Check {
    PinnedBuffer words;
    size_t count;
    Contents expected;
    Event done;
  };

  size_t below(size_t bound) { return random_() % bound; }
  Buffer& any_buffer() { return buffers_[below(buffers_.size())]; }
  aclrtStream stream_of(const Buffer& buffer) { return streams_[buffer.owner]; }
  Contents new_contents() { return {static_cast<uint32_t>(random_()), static_cast<uint32_t>(random_()) | 1}; }

  Buffer fresh() {
    Buffer buffer;
    buffer.words = kWords[below(std::size(kWords))];
    buffer.memory = make_device_buffer(buffer.bytes());
    buffer.owner = below(kStreams);
    fill(buffer);
    return buffer;
  }

  void step() {
    switch (below(14)) {
      case 0:
      case 1:
        return fill(any_buffer());
      case 2:
      case 3:
        return upload_staged(any_buffer());
      case 4:
      case 5:
        return copy_inside(any_buffer(), any_buffer());
      case 6:
        return change_owner(any_buffer());
      case 7:
        return fetch(any_buffer());
      case 8:
        return replace(any_buffer());
      case 9:
        return send();
      case 10:
        return receive();
      case 11:
      case 12:
        return use_pipeline();
      default:
        return look_around();
    }
  }

  void fill(Buffer& buffer) {
    const auto byte = static_cast<uint32_t>(below(256));
    EXPECT_ACL(aclrtMemsetAsync(buffer.memory, buffer.bytes(), static_cast<int32_t>(byte), buffer.bytes(), stream_of(buffer)));
    buffer.contents = {byte * 0x01010101U, 0};
  }

  // The source is on the stack of this function: pageable memory is read before the call returns.
  void upload_staged(Buffer& buffer) {
    buffer.contents = new_contents();
    std::vector<uint32_t> words(buffer.words);
    buffer.contents.write(words.data(), words.size());
    const auto kind = below(2) == 0 ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    EXPECT_ACL(aclrtMemcpyAsync(buffer.memory, buffer.bytes(), words.data(), buffer.bytes(), kind, stream_of(buffer)));
  }

  void copy_inside(Buffer& to, Buffer& from) {
    if (&to == &from || to.words != from.words || to.owner != from.owner) return;
    EXPECT_ACL(aclrtMemcpyAsync(to.memory, to.bytes(), from.memory, from.bytes(), ACL_MEMCPY_DEVICE_TO_DEVICE, stream_of(to)));
    to.contents = from.contents;
  }

  void change_owner(Buffer& buffer) {
    const size_t next = below(kStreams);
    Event ready = make_event(below(2) == 0 ? ACL_EVENT_SYNC : ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    EXPECT_ACL(aclrtRecordEvent(ready, stream_of(buffer)));
    EXPECT_ACL(aclrtStreamWaitEvent(streams_[next], ready));
    if (below(2) == 0) {
      EXPECT_ACL(aclrtRecordEvent(ready, streams_[below(kStreams)])) << "the waiter must use the earlier record";
    }
    buffer.owner = next;  // the event is destroyed, perhaps before it is reached
  }

  void fetch(Buffer& buffer) {
    if (checks_.size() == kMostChecks) verify_oldest();
    Check check{make_pinned_buffer(buffer.bytes()), buffer.words, buffer.contents, make_event()};
    EXPECT_ACL(aclrtMemcpyAsync(check.words, buffer.bytes(), buffer.memory, buffer.bytes(), ACL_MEMCPY_DEVICE_TO_HOST,
                                stream_of(buffer)));
    EXPECT_ACL(aclrtRecordEvent(check.done, stream_of(buffer)));
    checks_.push_back(std::move(check));
  }

  // aclrtFree does not wait, so that the test waits for the owner.
  void replace(Buffer& buffer) {
    EXPECT_ACL(aclrtSynchronizeStream(stream_of(buffer)));
    buffer = fresh();
  }

  void send() {
    if (buffers_.size() <= kBuffers / 2) return;
    std::swap(any_buffer(), buffers_.back());
    Parcel parcel{std::move(buffers_.back()), make_event()};
    buffers_.pop_back();
    EXPECT_ACL(aclrtRecordEvent(parcel.ready, stream_of(parcel.buffer)));
    std::lock_guard guard(shared_.mutex);
    shared_.parcels.push_back(std::move(parcel));
  }

  void receive() {
    std::optional<Parcel> parcel;
    {
      std::lock_guard guard(shared_.mutex);
      if (shared_.parcels.empty()) return;
      parcel = std::move(shared_.parcels.front());
      shared_.parcels.pop_front();
    }
    parcel->buffer.owner = below(kStreams);
    EXPECT_ACL(aclrtStreamWaitEvent(stream_of(parcel->buffer), parcel->ready));
    buffers_.push_back(std::move(parcel->buffer));
  }

  // Takes a free graph or creates one, replays it, and offers it to other threads or destroys it.
  void use_pipeline() {
    Buffer& from = any_buffer();
    std::optional<Pipeline> pipeline = below(4) == 0 ? std::nullopt : take_pipeline(from.words);
    if (!pipeline) pipeline = capture(from.words);
    for (size_t i = below(3) + 1; i > 0; --i) replay(*pipeline, from, any_buffer());
    {
      std::lock_guard guard(shared_.mutex);
      if (shared_.pipelines.size() < kMostPipelines) return shared_.pipelines.push_back(std::move(*pipeline));
    }
    retire(std::move(*pipeline));
  }

  std::optional<Pipeline> take_pipeline(size_t words) {
    std::lock_guard guard(shared_.mutex);
    const auto found = std::ranges::find(shared_.pipelines, words, &Pipeline::words);
    if (found == shared_.pipelines.end()) return std::nullopt;
    std::optional<Pipeline> pipeline = std::move(*found);
    shared_.pipelines.erase(found);
    return pipeline;
  }

  Pipeline capture(size_t words) {
    Pipeline pipeline;
    pipeline.words = words;
    const size_t bytes = pipeline.bytes(), half = bytes / 2;
    for (DeviceBuffer* buffer : {&pipeline.input, &pipeline.middle, &pipeline.output}) *buffer = make_device_buffer(bytes);
    pipeline.used = make_event();
    Event fork = make_event(), join = make_event();
    const size_t number = below(kStreams);
    const aclrtStream first = streams_[number], second = streams_[(number + 1) % kStreams];
    EXPECT_ACL(aclmdlRICaptureBegin(first, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    EXPECT_ACL(aclrtMemcpyAsync(pipeline.middle, bytes, pipeline.input, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, first));
    EXPECT_ACL(aclrtRecordEvent(fork, first));
    EXPECT_ACL(aclrtStreamWaitEvent(second, fork));
    EXPECT_ACL(aclrtMemcpyAsync(pipeline.output, half, pipeline.middle, half, ACL_MEMCPY_DEVICE_TO_DEVICE, first));
    EXPECT_ACL(aclrtMemcpyAsync(at(pipeline.output, ptrdiff_t(half)), bytes - half, at(pipeline.middle, ptrdiff_t(half)),
                                bytes - half, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
    EXPECT_ACL(aclrtRecordEvent(join, second));
    EXPECT_ACL(aclrtStreamWaitEvent(first, join));
    aclmdlRI graph = nullptr;
    EXPECT_ACL(aclmdlRICaptureEnd(first, &graph));
    pipeline.graph = Owned<aclmdlRIDestroy>(graph);
    EXPECT_ACL(aclrtRecordEvent(pipeline.used, first));
    return pipeline;
  }

  // Moves to `other`, or back if `other` is too small.
  void replay(Pipeline& pipeline, Buffer& from, Buffer& other) {
    Buffer& to = other.words == from.words && other.owner == from.owner ? other : from;
    const aclrtStream stream = stream_of(from);
    const size_t bytes = pipeline.bytes();
    EXPECT_ACL(aclrtStreamWaitEvent(stream, pipeline.used));
    EXPECT_ACL(aclrtMemcpyAsync(pipeline.input, bytes, from.memory, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    EXPECT_ACL(aclmdlRIExecuteAsync(pipeline.graph, stream));
    EXPECT_ACL(aclrtMemcpyAsync(to.memory, bytes, pipeline.output, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    EXPECT_ACL(aclrtRecordEvent(pipeline.used, stream));
    to.contents = from.contents;
    ++shared_.replays;
  }

  void look_around() {
    const aclrtStream stream = streams_[below(kStreams)];
    aclrtStreamStatus status;
    switch (below(4)) {
      case 0:
        EXPECT_ACL(aclrtStreamQuery(stream, &status));
        return;
      case 1:
        EXPECT_ACL(aclrtLaunchHostFunc(
            stream, [](void* count) { ++*static_cast<std::atomic<uint64_t>*>(count); }, &callbacks_));
        return;
      case 2:
        EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
        return;
      default:
        while (!checks_.empty() && below(4) != 0) verify_oldest();
    }
  }

  void verify_oldest() {
    Check check = std::move(checks_.front());
    checks_.pop_front();
    EXPECT_ACL(aclrtSynchronizeEvent(check.done));
    verify(static_cast<const uint32_t*>(check.words.get()), check.count, check.expected);
  }

  void verify_all() {
    while (!checks_.empty()) verify_oldest();
  }

  Shared& shared_;
  std::minstd_rand random_;
  std::atomic<uint64_t> callbacks_{0};
  std::deque<Check> checks_;
  std::vector<Buffer> buffers_;
  std::vector<Stream> streams_;  // destroyed first: their destruction waits for all uses of the other members
};

using StressTest = AclFixture;

TEST_F(StressTest, BuffersHoldWhatTheModelSays) {
  const uint64_t seconds = number_from_environment("SOFTNPU_STRESS_SECONDS", 2);
  const uint64_t seed = number_from_environment("SOFTNPU_STRESS_SEED", std::random_device()());
  std::printf("seed %lu, %lu s\n", seed, seconds);
  SCOPED_TRACE("SOFTNPU_STRESS_SEED=" + std::to_string(seed));
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  Shared shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      Worker(shared, seed + static_cast<uint64_t>(i)).run();
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  EXPECT_TRUE(eventually([&] { return shared.steps > 100 || HasFailure(); }));
  shared.stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_ACL(aclrtSynchronizeDevice());
  verify_parcels(shared);
  while (!shared.pipelines.empty()) {
    retire(std::move(shared.pipelines.front()));
    shared.pipelines.pop_front();
  }
  std::printf("%lu steps, %lu replays\n", shared.steps.load(), shared.replays.load());
}

}  // namespace
}  // namespace softnpu::test
