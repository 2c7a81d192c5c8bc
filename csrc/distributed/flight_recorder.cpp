#include "distributed/flight_recorder.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/options.h"
#include "distributed/group.h"
#include "distributed/operation.h"

namespace torch_npu::distributed {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte == '"' || byte == '\\') result += '\\';
    if (byte < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      result += escaped;
    } else {
      result += letter;
    }
  }
  return result + '"';
}

int64_t nanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

template <typename Items, typename Write>
std::string list_of(const Items& items, Write write) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += c10::str(i == 0 ? "" : ", ", write(items[i]));
  return text + "]";
}

std::string sizes_of(const std::vector<Operation::TensorNote>& notes) {
  return list_of(notes, [](const Operation::TensorNote& note) {
    return list_of(note.sizes, [](int64_t size) { return std::to_string(size); });
  });
}

std::string types_of(const std::vector<Operation::TensorNote>& notes) {
  return list_of(notes, [](const Operation::TensorNote& note) { return quoted(c10::toString(note.type)); });
}

const char* state_of(const Operation& operation, bool is_done) {
  if (operation.has_failed()) return "failed";
  if (!is_done) return "scheduled";
  return operation.has_succeeded() ? "completed" : "failed";
}

bool is_done(const Operation& operation) {
  if (nanoseconds(operation.found_done()) != 0) return true;
  try {
    return operation.is_done();
  } catch (const std::exception&) {  // the device refuses the query
    return false;
  }
}

std::string entry_of(const Operation& operation, uint64_t number, bool done) {
  const Group& group = *operation.group;
  std::ostringstream text;
  text << "{\"record_id\": " << number << ", \"pg_id\": " << quoted(group.name()) << ", \"process_group\": ["
       << quoted(group.name()) << ", " << quoted(group.description()) << "], \"rank\": " << group.rank()
       << ", \"group_size\": " << group.size() << ", \"collective_seq_id\": " << (operation.is_message ? 0 : operation.sequence)
       << ", \"p2p_seq_id\": " << (operation.is_message ? operation.sequence : 0)
       << ", \"is_p2p\": " << (operation.is_message ? "true" : "false")
       << ", \"profiling_name\": " << quoted(c10::str("hccl:", operation.name))
       << ", \"input_sizes\": " << sizes_of(operation.inputs) << ", \"input_dtypes\": " << types_of(operation.inputs)
       << ", \"output_sizes\": " << sizes_of(operation.outputs) << ", \"output_dtypes\": " << types_of(operation.outputs)
       << ", \"state\": \"" << state_of(operation, done) << "\", \"retired\": " << (done ? "true" : "false")
       << ", \"timeout_ms\": " << operation.timeout.count() << ", \"time_created_ns\": " << nanoseconds(operation.created)
       << ", \"time_discovered_completed_ns\": ";
  const int64_t found = nanoseconds(operation.found_done());
  found == 0 ? text << "null" : text << found;
  text << "}";
  return text.str();
}

}  // namespace

FlightRecorder::FlightRecorder() : size_(static_cast<size_t>(options().trace_size)) {}

FlightRecorder& FlightRecorder::get() {
  static FlightRecorder* const recorder = new FlightRecorder;
  return *recorder;
}

void FlightRecorder::add(const std::shared_ptr<Operation>& operation) {
  if (size_ == 0) return;
  const std::lock_guard lock(mutex_);
  ++added_;
  operations_.push_back(operation);
  if (operations_.size() > size_) operations_.pop_front();
}

std::string FlightRecorder::to_json(bool only_active, const std::string& reason) const {
  std::deque<std::shared_ptr<Operation>> operations;
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    operations = operations_;
    number = added_ - operations.size();
  }
  std::string entries;
  for (const std::shared_ptr<Operation>& operation : operations) {
    const bool done = is_done(*operation);
    if (!done || !only_active) entries += c10::str(entries.empty() ? "\n" : ",\n", entry_of(*operation, number, done));
    ++number;
  }
  const std::string why = reason.empty() ? "" : c10::str(", \"reason\": ", quoted(reason));
  return c10::str("{\"version\": \"2.4\", \"comm_lib\": \"hccl\"", why, ", \"entries\": [", entries, "]}\n");
}

std::string FlightRecorder::dump(int global_rank, const std::string& reason) const {
  static std::mutex* const writing = new std::mutex;
  const std::lock_guard lock(*writing);
  const std::string path = options().trace_file + std::to_string(global_rank);
  std::ofstream file(path);
  file << to_json(false, reason);
  file.close();
  return file.good() ? path : std::string();
}

void FlightRecorder::clear() {
  const std::lock_guard lock(mutex_);
  operations_.clear();
}

}  // namespace torch_npu::distributed
