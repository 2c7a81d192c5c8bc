#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "aten/capture/active.h"
#include "core/overflow.h"
#include "core/stream/open_captures.h"

namespace torch_npu::capture {
namespace {

constexpr size_t kBytesOfValue = sizeof(CapturedValue) + sizeof(CapturedTensor) + 64;  // without its data
constexpr char kEvaluates[] = "autograd::engine::evaluate_function";

struct CallContext final : at::ObserverContext {
  std::shared_ptr<ActiveCapture> capture;
  std::unique_ptr<Entry> entry;
  const OperatorInfo* info = nullptr;
  std::vector<at::Tensor> written;
  std::vector<c10::IValue> results;  // the arguments of info->written, which are recorded as results
  int outer_depth = 0;
  bool replayed = false;
};

class EntryBuilder {
 public:
  EntryBuilder(ActiveCapture& capture, Entry& entry) : capture_(capture), entry_(entry) {}

  CapturedValue value(std::string name, const c10::IValue& item, c10::TypePtr type = nullptr) {
    CapturedValue captured;
    captured.name = std::move(name);
    captured.type = std::move(type);
    if (item.isTensor()) {
      captured.kind = CapturedValue::Kind::kTensor;
      captured.tensors.push_back(tensor(item.toTensor()));
    } else if (item.isTensorList()) {
      captured.kind = CapturedValue::Kind::kTensors;
      for (const at::Tensor& each : item.toTensorVector()) captured.tensors.push_back(tensor(each));
    } else if (item.isOptionalTensorList()) {
      captured.kind = CapturedValue::Kind::kTensors;
      for (const std::optional<at::Tensor>& each : item.toOptionalTensorVector()) {
        captured.tensors.push_back(each.has_value() ? tensor(*each) : nullptr);
      }
    } else {
      captured.other = item;
    }
    return captured;
  }

  // Called after the last value was added and before the operator writes the tensors.
  void finish() {
    if (!unsummarised_.empty()) capture_.statistics.compute(unsummarised_);
    unsummarised_.clear();
    // These events tell when the copies on the devices are done.
    for (const c10::Device device : devices_) {
      entry_.copied.emplace_back(device.type());
      entry_.copied.back().record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    }
  }

 private:
  CapturedTensorPtr tensor(const at::Tensor& given) {
    if (!given.defined()) return nullptr;
    if (capture_.options.statistics) return capture_.statistics.of(given, unsummarised_);
    wait_for_room(capture_, entry_.bytes + bytes_of_snapshot(given));
    CapturedTensorPtr captured = snapshot(given);
    if (captured->data.defined()) {
      entry_.bytes += captured->data.nbytes();
      if (!given.device().is_cpu() && std::find(devices_.begin(), devices_.end(), given.device()) == devices_.end()) {
        devices_.push_back(given.device());
      }
    }
    return captured;
  }

  ActiveCapture& capture_;
  Entry& entry_;
  std::vector<c10::Device> devices_;
  std::vector<Unsummarised> unsummarised_;
};

template <class Action>
void for_each_tensor(const c10::IValue& value, const Action& action) {
  if (value.isTensor() && value.toTensor().defined()) action(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) action(tensor);
    }
  }
}

bool any_non_finite(c10::ArrayRef<c10::IValue> values) {
  bool found = false;
  for (const c10::IValue& value : values) {
    if (value.isDouble() && !std::isfinite(value.toDouble())) return true;
    if (value.isScalar() && value.toScalar().isFloatingPoint() && !std::isfinite(value.toScalar().toDouble())) return true;
    for_each_tensor(value, [&](const at::Tensor& tensor) { found = found || has_non_finite(tensor); });
  }
  return found;
}

// True if a stream of the values is in a graph capture. Such a stream allows no copies.
bool is_in_graph(c10::ArrayRef<c10::IValue> values) {
  if (!captures_exist()) return false;
  bool found = is_capturing(getCurrentNPUStream());
  for (const c10::IValue& value : values) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      found = found || (tensor.is_privateuseone() && is_capturing(getCurrentNPUStream(tensor.device().index())));
    });
  }
  return found;
}

bool uses_npu(c10::ArrayRef<c10::IValue> values) {
  bool found = false;
  for (const c10::IValue& value : values) {
    for_each_tensor(value, [&](const at::Tensor& tensor) { found = found || tensor.is_privateuseone(); });
  }
  return found;
}

const OperatorInfo& info_of(ActiveCapture& capture, const at::RecordFunction& function) {
  const std::lock_guard lock(capture.infos_mutex);
  std::unique_ptr<OperatorInfo>& info = capture.infos[{function.name(), function.overload_name()}];
  if (info != nullptr) return *info;
  info = std::make_unique<OperatorInfo>();
  const c10::FunctionSchema schema = *function.operator_schema();
  const std::string& full = schema.name();
  info->name = full.substr(full.find("::") == std::string::npos ? 0 : full.find("::") + 2);
  for (const c10::Argument& argument : schema.arguments()) {
    info->arguments.push_back(argument.name());
    info->types.push_back(argument.real_type());
  }
  const size_t count = schema.returns().size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& given = schema.returns()[i].name();
    info->results.push_back(!given.empty() ? given : count == 1 ? "result" : "result" + std::to_string(i));
  }
  info->chosen = capture.chooses(info->name);
  // Normalisations write their running statistics. Their schemas do not say so.
  const bool is_norm = info->name.find("_norm") != std::string::npos;
  // The schemas of collectives do not say which tensors they write, either.
  info->is_collective = full.rfind("c10d::", 0) == 0 || full.rfind("_c10d_functional", 0) == 0;
  info->writes = schema.is_mutable() || is_norm || info->is_collective;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool is_running = is_norm && (argument.name() == "running_mean" || argument.name() == "running_var");
    if ((is_written && count == 0) || is_running) info->written.push_back(i);
  }
  return *info;
}

bool chooses_module(ActiveCapture& capture, const std::string& module) {
  return !capture.modules.has_value() || std::regex_match(module, *capture.modules);
}

// Returns a new entry with the inputs of the call, or null if the call is not recorded.
std::unique_ptr<Entry> begin_entry(ActiveCapture& capture, CallContext& context, const Arguments& call,
                                   const std::vector<c10::TypePtr>* types, std::string module) {
  const OwnCalls own;
  if (is_in_graph(call.values)) {
    ++capture.in_graphs;
    return nullptr;
  }
  auto entry = std::make_unique<Entry>();
  entry->name = call.name;
  entry->backward = call.backward;
  entry->module = std::move(module);
  if (capture.options.before) {
    entry->sequence = capture.options.before(call);
    context.replayed = entry->sequence != 0;
  }
  if (entry->sequence == 0) entry->sequence = capture.sequence++;
  if (capture.options.overflow) {
    if (any_non_finite(call.values)) return nullptr;
    if (uses_npu(call.values)) clear_overflow_flag();
  }
  if (capture.options.places && !call.backward) entry->line = python_line();
  if (!capture.options.inputs) return entry;
  EntryBuilder builder(capture, *entry);
  for (size_t i = 0; i < call.values.size(); ++i) {
    entry->inputs.push_back(builder.value(call.names[i], call.values[i], types != nullptr ? (*types)[i] : nullptr));
  }
  builder.finish();
  return entry;
}

// True for an asynchronous collective: after the call, the stream of its group may still write the results.
bool is_still_running(const OperatorInfo& info, const at::RecordFunction& function) {
  if (!info.is_collective || info.name == "wait_tensor") return false;
  const auto inputs = function.inputs();
  for (size_t i = 0; i < inputs.size() && i < info.arguments.size(); ++i) {
    const bool is_flag = info.arguments[i] == "async_op" || info.arguments[i] == "asyncOp";
    if (is_flag && inputs[i].isBool()) return inputs[i].toBool();
  }
  return true;
}

void end_entry(ActiveCapture& capture, std::unique_ptr<Entry> entry, c10::ArrayRef<c10::IValue> results,
               const std::vector<std::string>& names) {
  const OwnCalls own;
  if (is_in_graph(results)) {  // a graph capture began during the operator
    ++capture.in_graphs;
    return;
  }
  if (capture.options.overflow) {
    const bool overflows = any_non_finite(results) || (uses_npu(results) && !overflow_is_infinite() && overflow_flag());
    if (!overflows) return;
  }
  if (capture.options.outputs) {
    EntryBuilder builder(capture, *entry);
    for (size_t i = 0; i < results.size(); ++i) {
      entry->outputs.push_back(builder.value(i < names.size() ? names[i] : "result" + std::to_string(i), results[i]));
    }
    builder.finish();
  }
  entry->bytes += sizeof(Entry);
  for (const auto* values : {&entry->inputs, &entry->outputs}) {
    for (const CapturedValue& value : *values) entry->bytes += kBytesOfValue * std::max<size_t>(1, value.tensors.size());
  }
  enqueue(capture, std::move(entry));
}

// Adds the results of a node to its entry.
class ResultsHook final : public torch::autograd::FunctionPostHook {
 public:
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    CaptureThread& thread = this_thread();
    if (thread.node == nullptr) return outputs;
    const std::shared_ptr<ActiveCapture> capture = std::move(thread.node_capture);
    std::vector<c10::IValue> results(outputs.begin(), outputs.end());
    std::vector<std::string> names;
    for (size_t i = 0; i < results.size(); ++i) names.push_back("result_" + std::to_string(i));
    try {
      end_entry(*capture, std::move(thread.node), results, names);
    } catch (const std::exception& error) {
      capture->fail(error.what());
    }
    return outputs;
  }
};

void add_results_hook() {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return;
  for (const auto& hook : node->post_hooks()) {
    if (dynamic_cast<ResultsHook*>(hook.get()) != nullptr) return;
  }
  node->add_post_hook(std::make_unique<ResultsHook>());
}

void begin_operator(CallContext& context, CaptureThread& thread, const at::RecordFunction& function) {
  ActiveCapture& capture = *context.capture;
  const OperatorInfo& info = info_of(capture, function);
  context.info = &info;
  const std::string& module = thread.module;
  if (capture.options.places && function.seqNr() >= 0) {
    const std::lock_guard lock(capture.modules_mutex);
    capture.module_of_node[{at::RecordFunction::currentThreadId(), function.seqNr()}] = module;
  }
  const auto inputs = function.inputs();
  if (capture.options.statistics && info.writes) {
    for (const c10::IValue& input : inputs) {
      for_each_tensor(input, [&](const at::Tensor& tensor) { context.written.push_back(tensor); });
    }
  }
  if (thread.depth > 1 || !capture.options.forward || !info.chosen || !chooses_module(capture, module)) return;
  Arguments call{info.name, false, info.arguments, std::vector<c10::IValue>(inputs.begin(), inputs.end())};
  call.names.resize(call.values.size());
  context.entry = begin_entry(capture, context, call, call.values.size() == info.types.size() ? &info.types : nullptr, module);
  if (context.entry == nullptr || inputs.size() != info.arguments.size()) return;
  for (const size_t i : info.written) context.results.push_back(inputs[i]);
}

std::string module_of(ActiveCapture& capture, const at::RecordFunction& function) {
  const std::lock_guard lock(capture.modules_mutex);
  auto found = capture.module_of_node.upper_bound({function.forwardThreadId(), function.seqNr()});
  if (found == capture.module_of_node.begin()) return {};
  --found;
  return found->first.first == function.forwardThreadId() ? found->second : std::string();
}

void begin_node(CallContext& context, const at::RecordFunction& function) {
  ActiveCapture& capture = *context.capture;
  if (!capture.options.backward) return;
  const auto inputs = function.inputs();
  const std::string_view full = function.name();  // "AddmmBackward0", "torch::autograd::AccumulateGrad"
  const size_t space = full.rfind("::");
  Arguments call{std::string(space == full.npos ? full : full.substr(space + 2)),
                 true,
                 {},
                 std::vector<c10::IValue>(inputs.begin(), inputs.end())};
  if (!capture.chooses(call.name)) return;
  std::string module = capture.options.places ? module_of(capture, function) : std::string();
  if (!chooses_module(capture, module)) return;
  for (size_t i = 0; i < call.values.size(); ++i) call.names.push_back("grad_" + std::to_string(i));
  context.entry = begin_entry(capture, context, call, nullptr, std::move(module));
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  CaptureThread& thread = this_thread();
  if (thread.busy) return nullptr;
  std::shared_ptr<ActiveCapture> capture = current_capture();
  if (capture == nullptr) return nullptr;
  const bool is_node = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  if (!is_node && !function.operator_name().has_value()) {
    if (std::strncmp(function.name(), kEvaluates, sizeof kEvaluates - 1) == 0) add_results_hook();
    return nullptr;
  }
  // Between a node and its hook, autograd's engine calls operators that give the results their final shapes.
  const bool is_of_engine = !is_node && thread.node != nullptr && torch::autograd::get_current_node() != nullptr;
  auto context = std::make_unique<CallContext>();
  context->capture = capture;
  context->outer_depth = thread.depth;
  try {
    if (!is_of_engine) flush_node(thread);
    thread.depth += is_of_engine ? 2 : 1;
    if (is_node) {
      begin_node(*context, function);
    } else {
      begin_operator(*context, thread, function);
    }
  } catch (const std::exception& error) {
    capture->fail(error.what());
  }
  return context;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* observed) {
  auto* context = static_cast<CallContext*>(observed);
  if (context == nullptr) return;
  CaptureThread& thread = this_thread();
  thread.depth = context->outer_depth;
  ActiveCapture& capture = *context->capture;
  try {
    for (const at::Tensor& tensor : context->written) capture.statistics.forget(tensor);
    if (context->replayed && capture.options.after) {
      const OwnCalls own;
      capture.options.after();
    }
    if (context->entry == nullptr) return;
    if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      thread.node = std::move(context->entry);
      thread.node_capture = context->capture;
      return;
    }
    const OperatorInfo& info = *context->info;
    std::vector<c10::IValue> results = function.outputs();
    if (is_still_running(info, function)) {  // the memory still holds the values from before the call
      results.clear();
      context->results.clear();
    }
    std::vector<std::string> names = info.results;
    if (results.size() == names.size()) {
      for (size_t i = 0; i < context->results.size(); ++i) {
        results.push_back(std::move(context->results[i]));
        names.push_back(info.arguments[info.written[i]]);
      }
    }
    end_entry(capture, std::move(context->entry), results, names);
  } catch (const std::exception& error) {
    capture.fail(error.what());
  }
}

}  // namespace

at::RecordFunctionCallback observer() {
  return at::RecordFunctionCallback(on_start, on_end)
      .needsInputs(true)
      .needsOutputs(true)
      .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
}

}  // namespace torch_npu::capture
