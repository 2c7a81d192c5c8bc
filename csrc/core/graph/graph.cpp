#include "core/graph/graph.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "acl/symbol.h"
#include "core/exit_report.h"
#include "core/generator.h"
#include "core/late_errors.h"
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

// Seed and offset for a replay that draws `count` numbers, and moves the offset behind them.
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

std::optional<c10::MempoolId_t> capture_pool(NPUStream stream) {
  const std::optional<CapturedFor> found = capture_of(stream);
  return found ? std::optional(found->pool) : std::nullopt;
}

void refuse_wait_in_capture(const char* what, const char* why) {
  TORCH_CHECK(
      !is_capturing(getCurrentNPUStream()), what, " waits for the device (", why,
      "), but the current stream is being captured for a graph: its work is recorded and does not run. Move the call out of ",
      "the capture.");
}

NPUGraph::~NPUGraph() {
  if (is_in_bad_fork()) return;
  const InterpreterUnlocked unlocked;  // the work that is waited for may need Python
  try {
    if (!drop_capture()) {
      abandon_capture(*this, std::exchange(parts_, {}));
    } else if (!process_ends()) {
      reset();
    } else if (!parts_.is_empty()) {
      keep_graph(std::exchange(parts_, {}));
    }
  } catch (...) {
    raise_later(std::current_exception());
    if (!parts_.is_empty()) keep_graph(std::exchange(parts_, {}));
  }
}

void NPUGraph::check_captured() const {
  TORCH_CHECK(parts_.graph != nullptr,
              "this NPUGraph holds no graph; capture one first, with torch.npu.graph() or capture_begin() and ", "capture_end()");
}

void NPUGraph::capture_begin(std::optional<c10::MempoolId_t> pool, aclmdlRICaptureMode mode) {
  TORCH_CHECK(parts_.is_empty(), "this NPUGraph has captured a graph already; make another one, or reset() it");
  TORCH_CHECK(plugged_allocator() == nullptr && !UncachedMemory::is_in_use(),
              "a graph keeps its memory in a pool, which needs the caching allocator of torch_npu; do not capture without it");
  const NPUStream stream = getCurrentNPUStream();
  TORCH_CHECK(stream.id() != 0, "the default stream cannot be captured; make another one current, as torch.npu.graph() does");
  parts_.device = stream.device_index();
  parts_.pool = pool.value_or(new_pool_id());
  retain_graph_pool(parts_.pool);
  try {
    begin_capture(*this, stream, parts_.pool, mode);
    captured_ = stream;
    parts_.states = allocate_memory(kMostGenerators * kStateBytes);
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
  parts_.graph = ended->graph;
  if (parts_.graph != nullptr) return;
  discard();
  TORCH_CHECK(false, ended->failure);
}

// Ends a capture whose graph is not wanted, if there is one. False if another thread has to do that.
bool NPUGraph::drop_capture() {
  if (!captured_) return true;
  const std::optional<EndedCapture> ended = end_capture(*this);
  if (!ended) return false;
  captured_.reset();
  parts_.graph = ended->graph;
  return true;
}

// Lets a graph go that was never replayed.
void NPUGraph::discard() noexcept {
  randoms_.clear();
  const c10::MempoolId_t pool = parts_.pool;
  try {
    drop_capture();
    if (let_go(parts_)) give_back_pool(pool);
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
  return static_cast<char*>(parts_.states.get()) + kStateBytes * static_cast<size_t>(position - randoms_.begin());
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

// Behind the last replay, which may still read the old ones on another stream.
void NPUGraph::write_states(NPUStream stream) {
  parts_.replayed.block(stream);
  for (Random& random : randoms_) {
    const std::array<uint64_t, 2> words = take_numbers(random.generator, random.drawn);
    ACL_CALL(aclrtMemcpyAsync, state_of(random), sizeof words, words.data(), sizeof words, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
             stream.stream());
  }
}

void NPUGraph::replay() {
  check_captured();
  const BoundDevice bound(parts_.device);
  const NPUStream stream = getCurrentNPUStream();
  TORCH_CHECK(!is_capturing(stream), "a graph cannot be replayed while the current stream is being captured for another one");
  if (!randoms_.empty()) write_states(stream);
  ACL_CALL(aclmdlRIExecuteAsync, parts_.graph, stream.stream());
  parts_.replayed.record(stream);
}

void NPUGraph::reset() {
  if (parts_.is_empty()) return;
  TORCH_CHECK(drop_capture(), kOtherThread);
  parts_.replayed.wait();
  wait_for_readers();
  randoms_.clear();
  const c10::MempoolId_t pool = parts_.pool;
  if (let_go(parts_)) give_back_pool(pool);
}

// Whatever uses memory of the pool, where this graph is the last to name it. give_back_pool() does so too, but then it is too
// late to leave the graph as it is.
void NPUGraph::wait_for_readers() const {
  if (device_cache(parts_.device).pool_use_count(parts_.pool) > 1) return;
  const NoCaptures no_captures;
  if (no_captures.holds()) wait_for_all_work();
}

c10::MempoolId_t NPUGraph::pool() const {
  TORCH_CHECK(!parts_.is_empty(), "this NPUGraph has no pool before capture_begin()");
  return parts_.pool;
}

void NPUGraph::debug_dump(const std::string& path) const {
  check_captured();
  const BoundDevice bound(parts_.device);
  ACL_CALL(aclmdlRIDebugJsonPrint, parts_.graph, path.c_str(), 0);
}

}  // namespace torch_npu
