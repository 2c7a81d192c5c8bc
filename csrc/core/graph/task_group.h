// Task groups: captured tasks of a stream whose arguments can be changed later.
//
//   begin_task_group(stream);                     // while the stream is captured
//   ...
//   aclrtTaskGrp group = end_task_group(stream);
//   begin_task_update(stream, group);             // between replays: the calls that follow replace the tasks of the group
//   ...
//   end_task_update(stream);
//
// A failed call of the device library throws. Thread-safe.
#pragma once

#include "acl/acl_mdl.h"
#include "core/stream/stream.h"

namespace torch_npu {

C10_EXPORT void begin_task_group(NPUStream stream);
C10_EXPORT aclrtTaskGrp end_task_group(NPUStream stream);
C10_EXPORT void begin_task_update(NPUStream stream, aclrtTaskGrp group);
C10_EXPORT void end_task_update(NPUStream stream);

}  // namespace torch_npu
