/* Sends numbers to the device on one stream and fetches them on another, in the right order.
 *
 * Streams do not wait for each other. An event orders them: aclrtRecordEvent marks the work that the first stream has so far, and
 * aclrtStreamWaitEvent makes the second stream wait for that mark. The host waits once, at the end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

enum { kCount = 1 << 20 };

/* Every function returns 0 or an error code. aclGetRecentErrMsg returns the message of the last failure of the thread. */
static void check(aclError code, const char* call) {
  if (code == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  fprintf(stderr, "%s returned %d: %s\n", call, code, message != NULL ? message : "no message");
  exit(EXIT_FAILURE);
}
#define CHECK(call) check((call), #call)

int main(void) {
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0)); /* the device of this thread */

  /* Host memory from aclrtMallocHost is pinned: asynchronous copies to and from it run beside the program. With memory from
   * malloc() the same calls return after the copy. */
  const size_t bytes = kCount * sizeof(int32_t);
  int32_t* sent = NULL;
  int32_t* received = NULL;
  void* on_device = NULL; /* a device address: the program must not read or write there */
  CHECK(aclrtMallocHost((void**)&sent, bytes));
  CHECK(aclrtMallocHost((void**)&received, bytes));
  CHECK(aclrtMalloc(&on_device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int32_t i = 0; i < kCount; ++i) sent[i] = 3 * i + 1;

  aclrtStream upload = NULL;
  aclrtStream download = NULL;
  aclrtEvent uploaded = NULL;
  CHECK(aclrtCreateStream(&upload));
  CHECK(aclrtCreateStream(&download));
  CHECK(aclrtCreateEventExWithFlag(&uploaded, ACL_EVENT_SYNC));

  CHECK(aclrtMemcpyAsync(on_device, bytes, sent, bytes, ACL_MEMCPY_HOST_TO_DEVICE, upload));
  CHECK(aclrtRecordEvent(uploaded, upload));
  CHECK(aclrtStreamWaitEvent(download, uploaded)); /* returns at once; the stream waits */
  CHECK(aclrtMemcpyAsync(received, bytes, on_device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, download));
  CHECK(aclrtSynchronizeStream(download)); /* the host waits for both copies */

  int wrong = 0;
  for (int32_t i = 0; i < kCount; ++i) wrong += received[i] != sent[i];

  CHECK(aclrtDestroyEvent(uploaded));
  CHECK(aclrtDestroyStream(download));
  CHECK(aclrtDestroyStream(upload));
  CHECK(aclrtFree(on_device));
  CHECK(aclrtFreeHost(received));
  CHECK(aclrtFreeHost(sent));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());

  printf("%d of %d numbers came back right\n", kCount - wrong, kCount);
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
