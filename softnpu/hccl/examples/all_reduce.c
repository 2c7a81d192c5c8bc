/* All-reduce of two processes with one device each.
 *
 * The program forks. The parent gets the root info, which contains the address of the communicator, and sends it to the child
 * through a pipe. Both processes create the communicator, put an all-reduce between two copies on a stream, and wait at the end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

enum { kRanks = 2, kCount = 1 << 16 };

static void check(int code, const char* call) {
  if (code == 0) return;
  const char* message = aclGetRecentErrMsg();
  fprintf(stderr, "%s returned %d: %s\n", call, code, message != NULL ? message : "no message");
  exit(EXIT_FAILURE);
}
#define CHECK(call) check((call), #call)

static void run_rank(uint32_t rank, const HcclRootInfo* root_info) {
  CHECK(aclrtSetDevice((int32_t)rank)); /* each rank has a device of its own */
  HcclComm comm = NULL;
  CHECK(HcclCommInitRootInfo(kRanks, root_info, rank, &comm)); /* returns when all ranks are connected */

  const size_t bytes = kCount * sizeof(float);
  float* host = NULL;
  void* device = NULL;
  aclrtStream stream = NULL;
  CHECK(aclrtMallocHost((void**)&host, bytes));
  CHECK(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtCreateStream(&stream));
  for (int i = 0; i < kCount; ++i) host[i] = (float)(i % 1000) * (float)(rank + 1);

  CHECK(aclrtMemcpyAsync(device, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK(HcclAllReduce(device, device, kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
  CHECK(aclrtMemcpyAsync(host, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK(aclrtSynchronizeStream(stream)); /* returns the error of a failed all-reduce */

  for (int i = 0; i < kCount; ++i) {
    if (host[i] == 3.0F * (float)(i % 1000)) continue;
    fprintf(stderr, "rank %u: element %d is %g\n", rank, i, host[i]);
    exit(EXIT_FAILURE);
  }
  printf("rank %u: the sum of %d elements is correct\n", rank, kCount);

  CHECK(HcclCommDestroy(comm));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtFree(device));
  CHECK(aclrtFreeHost(host));
  CHECK(aclrtResetDevice((int32_t)rank));
  CHECK(aclFinalize());
}

int main(void) {
  int ends[2];
  if (pipe(ends) != 0) return EXIT_FAILURE;
  const pid_t child = fork(); /* before the first device call, because a child cannot use the devices of its parent */
  HcclRootInfo root_info;
  CHECK(aclInit(NULL));
  if (child == 0) {
    if (read(ends[0], &root_info, sizeof root_info) != (ssize_t)sizeof root_info) return EXIT_FAILURE;
    run_rank(1, &root_info);
    return EXIT_SUCCESS;
  }
  CHECK(HcclGetRootInfo(&root_info));
  if (write(ends[1], &root_info, sizeof root_info) != (ssize_t)sizeof root_info) return EXIT_FAILURE;
  run_rank(0, &root_info);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
