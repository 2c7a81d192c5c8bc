#include "core/graph/graph.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include "acl/symbol.h"
#include "core/device/late_errors.h"
#include "core/device/process_end.h"
#include "core/graph/generator.h"
#include "core/graph/graph_file.h"
#include "core/memory/allocator.h"
#include "core/memory/device_cache.h"
#include "core/memory/memory_pool.h"
#include "core/memory/pluggable_allocator.h"
#include "core/memory/uncached_memory.h"
#include "core/stream/all_work.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

constexpr size_t kMostGenerators = 32;
constexpr size_t kStateBytes = 2 * sizeof(uint64_t);
constexpr const char* kOtherThread =
    "this NPUGraph is being captured by another thread, and a capture ends on the thread where it began (unless its "
    "capture_error_mode is 'relaxed'): call capture_end() or reset() there";

// The seed and offset for a replay that draws `count` numbers. Advances the generator's offset by `count`.
std::array<uint64_t, 2> take_numbers(const at::Generator& generator, uint64_t count) {
  auto* impl = at::check_generator<NPUGeneratorImpl>(generator);
  const std::lock_guard lock(impl->mutex_);
  const uint64_t offset = impl->get_offset();
  impl->set_offset(offset + count);
  return {impl->current_seed(), offset};
}

}  // namespace

NPUGraph* NPUGraph::capturing(NPUStream stream) {
  const std::optional<CapturedFor> found = capture_of(stream);
  return found ? found->graph : nullptr;
}

NPUGraph::~NPUGraph() {
  if (is_in_bad_fork()) return;
  const InterpreterUnlocked unlocked;  // the work that is waited for may need Python
  try {
    if (!drop_capture()) {
      const auto resources = std::make_shared<GraphResources>(std::exchange(resources_, {}));
      abandon_capture(*this, [resources] { release_resources(*resources); });
    } else if (!process_ends()) {
      reset();
    } else if (!resources_.is_empty()) {
      keep_resources(std::exchange(resources_, {}));
    }
  } catch (...) {
    raise_later(std::current_exception());
    if (!resources_.is_empty()) keep_resources(std::exchange(resources_, {}));
  }
}

void NPUGraph::check_captured() const {
  TORCH_CHECK(resources_.graph != nullptr,
              "this NPUGraph holds no graph; capture one first, with torch.npu.graph() or capture_begin() and ", "capture_end()");
}

void NPUGraph::capture_begin(std::optional<c10::MempoolId_t> pool, aclmdlRICaptureMode mode) {
  TORCH_CHECK(resources_.is_empty(), "this NPUGraph has captured a graph already; make another one, or reset() it");
  TORCH_CHECK(plugged_allocator() == nullptr && !UncachedMemory::is_in_use(),
              "a graph keeps its memory in a pool, which needs the caching allocator of torch_npu; do not capture without it");
  const NPUStream stream = getCurrentNPUStream();
  TORCH_CHECK(stream.id() != 0, "the default stream cannot be captured; make another one current, as torch.npu.graph() does");
  orders_.clear();
  resources_.device = stream.device_index();
  resources_.pool = pool.value_or(new_pool_id());
  retain_graph_pool(resources_.pool);
  try {
    begin_capture(*this, stream, resources_.pool, mode);
    captured_ = stream;
    resources_.states = allocate_memory(kMostGenerators * kStateBytes);
  } catch (...) {
    discard();
    throw;
  }
}

void NPUGraph::capture_end() {
  TORCH_CHECK(captured_, "capture_end() without capture_begin()");
  TORCH_CHECK(getCurrentNPUStream(captured_->device_index()) == *captured_,
              "a capture ends on the stream where it began, but another one is current");
  const std::optional<EndedCapture> ended = end_capture(*this);
  TORCH_CHECK(ended, kOtherThread);
  captured_.reset();
  resources_.graph = ended->graph;
  if (resources_.graph != nullptr) {
    if (writes_graph_files()) write_graph_file(resources_.graph, resources_.device);
    return;
  }
  discard();
  TORCH_CHECK(false, ended->failure);
}

// Ends the capture, if there is one. Returns false if only another thread can end it.
bool NPUGraph::drop_capture() {
  if (!captured_) return true;
  const std::optional<EndedCapture> ended = end_capture(*this);
  if (!ended) return false;
  captured_.reset();
  resources_.graph = ended->graph;
  return true;
}

// Releases a graph that was never replayed.
void NPUGraph::discard() noexcept {
  randoms_.clear();
  const c10::MempoolId_t pool = resources_.pool;
  try {
    drop_capture();
    if (release_resources(resources_)) release_pool_memory(pool);
  } catch (...) {
    raise_later(std::current_exception());
  }
}

NPUGraph::Random& NPUGraph::random_of(const at::Generator& generator) {
  const auto found = std::ranges::find(randoms_, generator, &Random::generator);
  if (found != randoms_.end()) return *found;
  TORCH_CHECK(randoms_.size() < kMostGenerators, "a graph draws from at most ", kMostGenerators, " generators");
  return randoms_.emplace_back(Random{generator});
}

void* NPUGraph::state_of(const Random& random) const {
  const auto position = std::ranges::find(randoms_, &random, [](const Random& each) { return &each; });
  return static_cast<char*>(resources_.states.get()) + kStateBytes * static_cast<size_t>(position - randoms_.begin());
}

void NPUGraph::register_generator(const at::Generator& generator) {
  at::check_generator<NPUGeneratorImpl>(generator);
  random_of(generator);
}

NPUGraph::Draw NPUGraph::draw(const at::Generator& generator, uint64_t count) {
  Random& random = random_of(generator);
  const uint64_t offset = random.drawn;
  random.drawn += (count + 3) / 4 * 4;
  return {.seed = generator.current_seed(), .offset = offset, .state = state_of(random)};
}

// Waits for the last replay, which may still read the previous states on another stream.
void NPUGraph::write_states(NPUStream stream) {
  resources_.replayed.block(stream);
  for (Random& random : randoms_) {
    const std::array<uint64_t, 2> words = take_numbers(random.generator, random.drawn);
    ACL_CALL(aclrtMemcpyAsync, state_of(random), sizeof words, words.data(), sizeof words, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
             stream.stream());
  }
}

// Calls the orders one within the other, always in the same sequence, since each may lock.
void NPUGraph::launch_in_order(std::map<const void*, ReplayOrder>::const_iterator next, NPUStream stream) {
  if (next != orders_.end()) return next->second(stream, [&] { launch_in_order(std::next(next), stream); });
  ACL_CALL(aclmdlRIExecuteAsync, resources_.graph, stream.stream());
}

void NPUGraph::replay() {
  check_captured();
  const BoundDevice bound(resources_.device);
  const NPUStream stream = getCurrentNPUStream();
  TORCH_CHECK(!is_capturing(stream), "a graph cannot be replayed while the current stream is being captured for another one");
  if (!randoms_.empty()) write_states(stream);
  launch_in_order(orders_.begin(), stream);
  ++detail::replays;
  resources_.replayed.record(stream);
}

void NPUGraph::reset() {
  if (resources_.is_empty()) return;
  TORCH_CHECK(drop_capture(), kOtherThread);
  resources_.replayed.wait();
  wait_for_readers();
  randoms_.clear();
  const c10::MempoolId_t pool = resources_.pool;
  if (release_resources(resources_)) release_pool_memory(pool);
}

// Waits for all work if this graph holds the last reference to its pool. release_pool_memory() waits too, but after that wait a
// failure could not leave the graph as it was.
void NPUGraph::wait_for_readers() const {
  if (device_cache(resources_.device).pool_use_count(resources_.pool) > 1) return;
  const NoCaptures no_captures;
  if (no_captures.holds()) wait_for_all_work();
}

c10::MempoolId_t NPUGraph::pool() const {
  TORCH_CHECK(!resources_.is_empty(), "this NPUGraph has no pool before capture_begin()");
  return resources_.pool;
}

void NPUGraph::debug_dump(const std::string& path) const {
  check_captured();
  const BoundDevice bound(resources_.device);
  ACL_CALL(aclmdlRIDebugJsonPrint, resources_.graph, path.c_str(), 0);
}

}  // namespace torch_npu
