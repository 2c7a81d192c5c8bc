/* Records the work of a device into a folder PROF_* below the working directory, or below the folder that is given.
 *
 *   example_profile [FOLDER]
 *   msprof --export=on --output=FOLDER
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"

enum { kBytes = 1 << 20, kSteps = 3 };

static void check(int code, const char* call) {
  if (code == 0) return;
  const char* message = aclGetRecentErrMsg();
  fprintf(stderr, "%s returned %d: %s\n", call, code, message != NULL ? message : "no message");
  exit(EXIT_FAILURE);
}
#define CHECK(call) check((call), #call)

int main(int count, char** arguments) {
  const char* folder = count > 1 ? arguments[1] : ".";
  uint32_t device = 0;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice((int32_t)device));
  void* host = NULL;
  void* memory = NULL;
  aclrtStream stream = NULL;
  CHECK(aclrtMallocHost(&host, kBytes));
  CHECK(aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtCreateStream(&stream));

  CHECK(aclprofInit(folder, strlen(folder)));
  const uint64_t what = ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_TRAINING_TRACE | ACL_PROF_MSPROFTX;
  aclprofConfig* config = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, what);
  check(config == NULL, "aclprofCreateConfig");
  CHECK(aclprofStart(config));

  aclprofStepInfo* step = aclprofCreateStepInfo();
  for (int i = 0; i < kSteps; ++i) {
    CHECK(aclprofGetStepTimestamp(step, ACL_STEP_START, stream));
    CHECK(aclrtMemcpyAsync(memory, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK(aclprofMarkEx("half", 4, stream));
    CHECK(aclrtMemcpyAsync(host, kBytes, memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclprofGetStepTimestamp(step, ACL_STEP_END, stream));
  }
  CHECK(aclrtSynchronizeStream(stream)); /* the result has only tasks that have ended */
  aclprofDestroyStepInfo(step);

  CHECK(aclprofStop(config));
  CHECK(aclprofFinalize());
  CHECK(aclprofDestroyConfig(config));
  printf("%d steps were recorded below %s\n", (int)kSteps, folder);

  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtFree(memory));
  CHECK(aclrtFreeHost(host));
  CHECK(aclrtResetDevice((int32_t)device));
  CHECK(aclFinalize());
  return EXIT_SUCCESS;
}
