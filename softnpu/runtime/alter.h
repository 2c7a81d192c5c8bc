/* The second private door between the softnpu libraries, beside driver.h: lets libopapi change a task that was just captured. */
#ifndef SOFTNPU_RUNTIME_ALTER_H_
#define SOFTNPU_RUNTIME_ALTER_H_

#include "runtime/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Calls `alter` with the tasks that were captured on `stream`, the newest first, until it returns true: it may put another
 * payload in place, and another kind of the same name and flags. Returns whether one was altered. */
__attribute__((visibility("default"))) bool softnpuAlterCaptured(
    aclrtStream stream, bool (*alter)(const SoftnpuTaskKind** kind, void* payload, void* context), void* context);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_RUNTIME_ALTER_H_ */
