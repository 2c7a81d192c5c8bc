/* For libraries whose tasks wait for something outside of this process: whether their stream was aborted meanwhile.
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

/* Called by a task of SOFTNPU_TASK_ON_WORKER while it runs: whether aclrtStreamAbort or aclrtDeviceTaskAbort was called for its
 * stream after it began. The abort waits until the task returns. */
__attribute__((visibility("default"))) bool softnpuTaskIsAborted(void);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_RUNTIME_ABORT_H_ */
