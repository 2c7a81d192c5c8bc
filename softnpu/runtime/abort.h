/* Tells a task that waits for something outside of this process whether its stream was aborted.
 *
 *   #pragma weak softnpuTaskIsAborted                                  // a foreign libascendcl does not export it
 *   if (softnpuTaskIsAborted != NULL && softnpuTaskIsAborted()) return;
 */
#ifndef SOFTNPU_RUNTIME_ABORT_H_
#define SOFTNPU_RUNTIME_ABORT_H_

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A task with SOFTNPU_TASK_ON_WORKER calls this while it runs. True if aclrtStreamAbort or aclrtDeviceTaskAbort was called for
 * its stream after the task began. The abort waits until the task returns. */
__attribute__((visibility("default"))) bool softnpuTaskIsAborted(void);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_RUNTIME_ABORT_H_ */
