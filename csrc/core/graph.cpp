#include "core/graph.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "acl/symbol.h"
#include "core/allocator.h"
#include "core/device_cache.h"
#include "core/generator.h"
#include "core/memory_pool.h"
#include "core/pluggable_allocator.h"
#include "core/uncached_memory.h"

namespace torch_npu {
namespace {

constexpr size_t kMostGenerators = 32;
constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

// Seed and offset for a replay that draws `count` numbers, and moves the offset behind them.
std::array<uint64_t, 2> take_numbers(const at::Generator& generator, uint64_t count) {
  auto* impl = at::check_generator<NPUGeneratorImpl>(generator);
  const std::lock_guard lock(impl->mutex_);
  const uint64_t offset = impl->get_offset();
  impl->set_offset(offset + count);
  return {impl->current_seed(), offset};
}

// Those that are being captured.
struct Registry {
  std::mutex mutex;
  std::vector<std::pair<aclmdlRI, NPUGraph*>> graphs;  // guarded by mutex
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

// What a stream is captured for; null if it is not.
aclmdlRI captured_for(NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = nullptr;
  ACL_CALL(aclmdlRICaptureGetInfo, stream.stream(), &status, &graph);
  return status == ACL_MODEL_RI_CAPTURE_STATUS_NONE ? nullptr : graph;
}

// Streams of every device may take part in a capture.
template <typename Function>
void for_each_cache(const Function& function) {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) function(device_cache(device));
}

void release_pool(c10::MempoolId_t pool) {
  for_each_cache([&](DeviceCache& cache) { cache.release_pool(pool); });
}

}  // namespace

constinit std::atomic<int> detail::captures{0};

bool is_capturing(NPUStream stream) { return captures_exist() && captured_for(stream) != nullptr; }

NPUGraph* NPUGraph::capturing(NPUStream stream) {
  if (!captures_exist()) return nullptr;
  const aclmdlRI graph = captured_for(stream);
  if (graph == nullptr) return nullptr;
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto found = std::ranges::find(known.graphs, graph, [](const auto& entry) { return entry.first; });
  return found == known.graphs.end() ? nullptr : found->second;
}

std::optional<c10::MempoolId_t> capture_pool(NPUStream stream) {
  const NPUGraph* graph = NPUGraph::capturing(stream);
  return graph == nullptr ? std::nullopt : std::optional(graph->pool_);
}

void refuse_wait_in_capture(const char* what, const char* why) {
  TORCH_CHECK(
      !is_capturing(getCurrentNPUStream()), what, " waits for the device (", why,
      "), but the current stream is being captured for a graph: its work is recorded and does not run. Move the call out of ",
      "the capture.");
}

NPUGraph::~NPUGraph() {
  if (is_in_bad_fork()) return;
  try {
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("a graph of npu was not let go: ", error.what());
  }
}

void NPUGraph::check_captured() const {
  TORCH_CHECK(graph_ != nullptr,
              "this NPUGraph holds no graph; capture one first, with torch.npu.graph() or capture_begin() and ", "capture_end()");
}

void NPUGraph::capture_begin(std::optional<c10::MempoolId_t> pool, aclmdlRICaptureMode mode) {
  TORCH_CHECK(graph_ == nullptr && !captured_, "this NPUGraph has captured a graph already; make another one, or reset() it");
  TORCH_CHECK(plugged_allocator() == nullptr && !UncachedMemory::is_in_use(),
              "a graph keeps its memory in a pool, which needs the caching allocator of torch_npu; do not capture without it");
  const NPUStream stream = getCurrentNPUStream();
  TORCH_CHECK(stream.id() != 0, "the default stream cannot be captured; make another one current, as torch.npu.graph() does");
  device_ = stream.device_index();
  pool_ = pool.value_or(new_pool_id());
  for_each_cache([&](DeviceCache& cache) { cache.retain_pool(pool_, nullptr); });
  try {
    ACL_CALL(aclmdlRICaptureBegin, stream.stream(), mode);
  } catch (...) {
    release_pool(std::exchange(pool_, {0, 0}));
    throw;
  }
  captured_ = stream;
  ++detail::captures;
  ++detail::allocation_watchers;
  {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    known.graphs.emplace_back(captured_for(stream), this);
  }
  try {
    states_ = allocate_memory(kMostGenerators * kStateBytes);
  } catch (...) {
    reset();
    throw;
  }
}

void NPUGraph::stop_capturing() {
  captured_.reset();
  {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    std::erase_if(known.graphs, [&](const auto& entry) { return entry.second == this; });
  }
  --detail::allocation_watchers;
  --detail::captures;
}

void NPUGraph::capture_end() {
  TORCH_CHECK(captured_, "capture_end() without capture_begin()");
  const BoundDevice bound(device_);
  const NPUStream stream = getCurrentNPUStream();
  TORCH_CHECK(stream == *captured_, "a capture ends on the stream where it began, but another one is current");
  const aclError code = ACL_FN(aclmdlRICaptureEnd)(stream.stream(), &graph_);
  const std::string reason = code == ACL_SUCCESS ? std::string() : acl::describe(code, "aclmdlRICaptureEnd");
  stop_capturing();
  if (code == ACL_SUCCESS) return;
  graph_ = nullptr;
  reset();
  TORCH_CHECK(false, reason);
}

NPUGraph::Random& NPUGraph::random_of(const at::Generator& generator) {
  const auto found = std::ranges::find(randoms_, generator, &Random::generator);
  if (found != randoms_.end()) return *found;
  TORCH_CHECK(randoms_.size() < kMostGenerators, "a graph draws from at most ", kMostGenerators, " generators");
  return randoms_.emplace_back(Random{generator});
}

void* NPUGraph::state_of(const Random& random) const {
  const auto position = std::ranges::find(randoms_, &random, [](const Random& each) { return &each; });
  return static_cast<char*>(states_.get()) + kStateBytes * static_cast<size_t>(position - randoms_.begin());
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
  replayed_.block(stream);
  for (Random& random : randoms_) {
    const std::array<uint64_t, 2> words = take_numbers(random.generator, random.drawn);
    ACL_CALL(aclrtMemcpyAsync, state_of(random), sizeof words, words.data(), sizeof words, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
             stream.stream());
  }
}

void NPUGraph::replay() {
  check_captured();
  const BoundDevice bound(device_);
  const NPUStream stream = getCurrentNPUStream();
  TORCH_CHECK(!is_capturing(stream), "a graph cannot be replayed while the current stream is being captured for another one");
  if (!randoms_.empty()) write_states(stream);
  ACL_CALL(aclmdlRIExecuteAsync, graph_, stream.stream());
  replayed_.record(stream);
}

void NPUGraph::reset() {
  if (pool_ == c10::MempoolId_t{0, 0}) return;
  const BoundDevice bound(device_);
  if (captured_) {
    ACL_FN(aclmdlRICaptureEnd)(captured_->stream(), &graph_);
    stop_capturing();
  }
  const c10::MempoolId_t pool = std::exchange(pool_, {0, 0});
  try {
    replayed_.synchronize();
  } catch (const std::exception& error) {
    TORCH_WARN("the last replay of a graph failed: ", error.what());
  }
  if (graph_ != nullptr) ACL_FN(aclmdlRIDestroy)(std::exchange(graph_, nullptr));
  randoms_.clear();
  states_.clear();
  release_pool(pool);
}

c10::MempoolId_t NPUGraph::pool() const {
  TORCH_CHECK(pool_ != (c10::MempoolId_t{0, 0}), "this NPUGraph has no pool before capture_begin()");
  return pool_;
}

void NPUGraph::debug_dump(const std::string& path) const {
  check_captured();
  const BoundDevice bound(device_);
  ACL_CALL(aclmdlRIDebugJsonPrint, graph_, path.c_str(), 0);
}

}  // namespace torch_npu
