// The dump of one launched operator.
//
//   std::unique_ptr<DumpedCall> dump = DumpedCall::begin("aclnnAdd", place);   // at its launch; null if it is not dumped
//   dump->before(describe, payload);                                           // when it runs, in the order of its stream
//   kind.run(payload, message);
//   dump->after(describe, payload);                                            // only if it succeeded
#pragma once

#include <memory>
#include <string>

#include "runtime/base/ticket.h"
#include "runtime/dump/writer.h"
#include "runtime/operators.h"

namespace softnpu {

struct DumpPlace {
  int device = 0;  // the number of the device on the host
  int32_t stream = 0;
  uint64_t graph = 0;   // 0 outside of replays
  uint64_t replay = 0;  // the number of the replay of this graph, from 0
};

class DumpedCall {
 public:
  static std::unique_ptr<DumpedCall> begin(const char* name, const DumpPlace& place);

  // The ticket of the task. The launch sets it before the operator runs.
  const std::shared_ptr<Ticket>& task() const { return task_; }

  // A failure of these functions stops the dump. The operator runs anyway.
  void before(SoftnpuOperatorDescriber describe, const void* payload);
  void after(SoftnpuOperatorDescriber describe, const void* payload);

 private:
  DumpedCall() = default;
  template <class Body>
  void attempt(Body body);
  void add(const SoftnpuOperatorTensor& tensor, bool is_output);

  std::unique_ptr<DumpRecord> record_;  // null once it is submitted, or after a failure
  std::shared_ptr<Ticket> task_ = std::make_shared<Ticket>(0);
};

}  // namespace softnpu
