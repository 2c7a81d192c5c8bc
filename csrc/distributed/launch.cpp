#include "distributed/launch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/ScopeExit.h>

#include "base/first_failure.h"
#include "core/graph/graph.h"
#include "core/guard.h"
#include "core/stream/launch_trace.h"
#include "core/stream/open_captures.h"
#include "distributed/call_notes.h"
#include "distributed/flight_recorder.h"
#include "distributed/watchdog.h"

namespace torch_npu::distributed {
namespace {

std::vector<Operation::TensorNote> notes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Operation::TensorNote> notes;
  notes.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) notes.push_back({tensor.scalar_type(), c10::DimVector(tensor.sizes())});
  return notes;
}

c10::DeviceIndex device_of(const Call& call) {
  if (call.device >= 0) return call.device;
  return (call.inputs.empty() ? call.outputs : call.inputs).at(0).device().index();
}

NPUStream stream_for(const Call& call, Communicator& communicator, NPUStream current, bool is_coalescing) {
  if (call.is_batch && !call.directions.empty()) return communicator.batch_stream();
  if (!call.directions.empty()) return communicator.message_stream(call.directions[0].first, call.directions[0].second);
  return call.is_async || is_coalescing ? communicator.collective_stream() : current;
}

// Applies `act` to the orders that the call takes part in.
template <typename Act>
void for_orders(const Call& call, Communicator& communicator, Act act) {
  if (call.directions.empty()) act(communicator.collective_order());
  for (const auto& [peer, is_send] : call.directions) act(communicator.message_order(peer, is_send));
}

std::shared_ptr<Operation> operation_of(const std::shared_ptr<Group>& group, const Call& call,
                                        std::shared_ptr<Communicator> communicator, NPUStream stream, NPUStream caller) {
  auto operation = std::make_shared<Operation>(group, std::move(communicator), stream, caller);
  operation->type = call.type;
  operation->name = call.name();
  operation->is_message = !call.directions.empty();
  operation->blocks_host = call.blocks_host;
  operation->sequence = operation->is_message ? group->next_message() : group->next_collective();
  operation->inputs = notes_of(call.inputs);
  operation->outputs = notes_of(call.outputs);
  operation->timeout = call.timeout == c10d::kUnsetTimeout ? group->timeout() : call.timeout;
  return operation;
}

// Replays of the graph that is being captured take part in the orders of the call's communicator, as if they were calls.
void order_replays(const std::shared_ptr<Group>& group, const Call& call, const std::shared_ptr<Communicator>& communicator,
                   NPUStream captured) {
  NPUGraph* const graph = NPUGraph::capturing(captured);
  if (graph == nullptr) return;
  for_orders(call, *communicator, [&](StreamOrder& order) {
    graph->order_replays(&order, [group = std::weak_ptr(group), communicator = std::weak_ptr(communicator), &order](
                                     NPUStream stream, const std::function<void()>& launch) {
      const std::shared_ptr<Group> living = group.lock();
      const std::shared_ptr<Communicator> connected = communicator.lock();
      if (living == nullptr || connected == nullptr) return launch();  // the replay fails: its communicator was destroyed
      const std::lock_guard lock(living->launch_lock());
      order.enter(stream);
      FirstFailure failure;
      failure.attempt(launch);
      failure.attempt([&] { order.leave(stream); });
      failure.rethrow();
    });
  });
}

std::vector<at::Tensor> all_tensors(const Call& call) {
  std::vector<at::Tensor> all = call.inputs;
  all.insert(all.end(), call.outputs.begin(), call.outputs.end());
  return all;
}

}  // namespace

c10::intrusive_ptr<c10d::Work> launch(const std::shared_ptr<Group>& group, Call call, Body body) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::DeviceIndex device = device_of(call);
  const NPUGuard device_guard(npu_device(device));
  const std::lock_guard lock(group->launch_lock());
  group->check_usable(call.name());
  const std::shared_ptr<Communicator> communicator = group->communicator(device);
  const NPUStream current = getCurrentNPUStream(device);
  const bool is_captured = captures_exist() && is_capturing(current);
  const bool is_coalescing = group->batch().has_value();
  const NPUStream stream = stream_for(call, *communicator, current, is_coalescing);
  const bool is_elsewhere = stream != current;

  const std::shared_ptr<Operation> operation = operation_of(group, call, communicator, stream, current);
  operation->is_captured = is_captured;
  auto work = c10::make_intrusive<WorkHCCL>(operation, call.outputs, group->rank(), call.title, call.inputs);
  if (is_elsewhere) {
    NPUEvent ready;
    ready.record(current);
    ready.block(stream);
  }
  {
    const NPUStreamGuard guard(stream.unwrap());
    // In a capture the graph has the order, and events of other streams cannot be waited for.
    if (is_captured) order_replays(group, call, communicator, current);
    if (!is_captured) for_orders(call, *communicator, [&](StreamOrder& order) { order.enter(stream); });
    FirstFailure failure;
    failure.attempt([&] {
      const auto forget = c10::make_scope_exit([] { forget_notes(); });
      body(communicator->handle(), stream.stream());
    });
    // A body makes several calls. If one throws, the earlier ones are already launched.
    if (!is_captured) for_orders(call, *communicator, [&](StreamOrder& order) { failure.attempt([&] { order.leave(stream); }); });
    failure.rethrow();
    operation->mark_done();
  }
  if (is_elsewhere) {
    operation->hold(all_tensors(call));
    if (!is_captured) group->add_waiter(current);  // futures, too, can make it wait
  }
  if (is_coalescing) {
    group->batch()->has_collectives = true;
    group->batch()->device = device;
  }
  work->launched(is_elsewhere);
  if (!is_captured) {
    FlightRecorder::get().add(operation);
    watch(operation);
  }
  after_launch(stream, operation->name, [&] { return operation->describe(); });
  return work;
}

}  // namespace torch_npu::distributed
