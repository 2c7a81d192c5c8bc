#include "core/graph/task_group.h"

#include "acl/symbol.h"

namespace torch_npu {

void begin_task_group(NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclmdlRICaptureTaskGrpBegin, stream.stream());
}

aclrtTaskGrp end_task_group(NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  aclrtTaskGrp group = nullptr;
  ACL_CALL(aclmdlRICaptureTaskGrpEnd, stream.stream(), &group);
  return group;
}

void begin_task_update(NPUStream stream, aclrtTaskGrp group) {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclmdlRICaptureTaskUpdateBegin, stream.stream(), group);
}

void end_task_update(NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclmdlRICaptureTaskUpdateEnd, stream.stream());
}

}  // namespace torch_npu
