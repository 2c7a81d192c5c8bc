// Graphs: capturing, executing, updating.
#include "runtime/stream/graph.h"

#include <fstream>

#include "api.h"
#include "runtime/base/log.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/context.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {
namespace {

Result<Graph::Ref> finished_graph(const GraphSlot& slot) {
  if (slot.is_captured.load(std::memory_order_acquire)) {
    return Status(ACL_ERROR_RT_MODEL_CAPTURED, "the graph is still being captured; call aclmdlRICaptureEnd first");
  }
  Graph::Ref graph = slot.graph();
  if (graph == nullptr) return Status(ACL_ERROR_RT_INVALID_HANDLE, "the graph is being destroyed by another thread");
  return graph;
}

}  // namespace

Status aclmdlRICaptureBegin(Stream& stream, aclmdlRICaptureMode mode) { return captures().begin(stream, mode); }

Status aclmdlRICaptureGetInfo(Stream& stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
  *status = captures().status(stream, modelRI);
  return {};
}

Status aclmdlRICaptureEnd(Stream& stream, aclmdlRI* modelRI) {
  *modelRI = nullptr;
  Result<Ref<GraphSlot>> graph = captures().end(stream);
  if (!graph.ok()) return graph.take_status();
  *modelRI = GraphPool::handle_of(graph.value());
  return {};
}

Status aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) { return Captures::exchange_mode(mode); }

Status aclmdlRIExecuteAsync(GraphSlot& modelRI, Stream& stream) {
  Result<Graph::Ref> graph = finished_graph(modelRI);
  if (!graph.ok()) return graph.take_status();
  if (stream.is_recorded.load(std::memory_order_relaxed)) {
    return {ACL_ERROR_RT_STREAM_CAPTURED, "a graph cannot be executed on a captured stream"};
  }
  return graph.value()->execute(stream);
}

Status aclmdlRIExecute(GraphSlot& modelRI, int32_t timeout) {
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  Result<Deadline> deadline = Deadline::after_milliseconds(timeout);
  if (!deadline.ok()) return deadline.take_status();
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  Stream& stream = context.value()->default_stream();
  SOFTNPU_RETURN_IF_ERROR(api::aclmdlRIExecuteAsync(modelRI, stream));
  return stream.synchronize(deadline.value());
}

Status aclmdlRIDestroy(GraphSlot& modelRI) {
  const Ref<GraphSlot> graph(modelRI);
  if (modelRI.is_captured.load(std::memory_order_acquire)) {
    return {ACL_ERROR_RT_MODEL_CAPTURED, "the graph is still being captured; call aclmdlRICaptureEnd first"};
  }
  if (!graph_pool().withdraw(graph)) {
    return {ACL_ERROR_RT_INVALID_HANDLE, "the graph is being destroyed by another thread"};
  }
  captures().drop_groups(modelRI);
  modelRI.close();
  graph_pool().give_back(modelRI);
  return {};
}

Status aclmdlRIDebugPrint(GraphSlot& modelRI) {
  Result<Graph::Ref> graph = finished_graph(modelRI);
  if (!graph.ok()) return graph.take_status();
  SOFTNPU_LOG_EVENT("graph of ", graph.value()->size(), " tasks:\n", graph.value()->describe());
  return {};
}

Status aclmdlRIDebugJsonPrint(GraphSlot& modelRI, const char* path, uint32_t flags) {
  Result<Graph::Ref> graph = finished_graph(modelRI);
  if (!graph.ok()) return graph.take_status();
  std::ofstream file(path);
  file << graph.value()->describe_as_json(flags == ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE);
  file.close();
  if (file.good()) return {};
  return {ACL_ERROR_INVALID_FILE, text("'", path, "' cannot be written; does its folder exist?")};
}

Status aclmdlRICaptureTaskGrpBegin(Stream& stream) { return captures().group_begin(stream); }

Status aclmdlRICaptureTaskGrpEnd(Stream& stream, aclrtTaskGrp* handle) {
  Result<Ref<TaskGroup>> group = captures().group_end(stream);
  if (!group.ok()) return group.take_status();
  *handle = TaskGroupPool::handle_of(group.value());
  return {};
}

Status aclmdlRICaptureTaskUpdateBegin(Stream& stream, TaskGroup& handle) { return captures().update_begin(stream, handle); }

Status aclmdlRICaptureTaskUpdateEnd(Stream& stream) { return captures().update_end(stream); }

}  // namespace softnpu::api
