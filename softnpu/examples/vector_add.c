/* Adds two vectors on the device with aclnnAdd, multiplies two matrices with aclnnMm and sums the product with aclnnReduceSum. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_reduce_sum.h"

enum { kSide = 4, kCount = kSide * kSide, kBytes = kCount * (int)sizeof(float) };

/* Ends the program with a message if a call failed. */
static void check(int code, const char* call) {
  if (code == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  fprintf(stderr, "%s: code %d: %s\n", call, code, message != NULL ? message : "no message");
  exit(EXIT_FAILURE);
}
#define CHECK(call) check((call), #call)

static void* new_device_memory(const float* values) {
  void* memory = NULL;
  CHECK(aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  if (values != NULL) CHECK(aclrtMemcpy(memory, kBytes, values, kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return memory;
}

static aclTensor* new_tensor(const int64_t* sizes, uint64_t ndim, void* memory) {
  const int64_t storage = kCount;
  aclTensor* tensor = aclCreateTensor(sizes, ndim, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &storage, 1, memory);
  if (tensor == NULL) check(ACLNN_ERR_INNER, "aclCreateTensor");
  return tensor;
}

/* The second phase of a call needs a workspace if the first phase returned a size. */
static void* new_workspace(uint64_t bytes) {
  void* workspace = NULL;
  if (bytes > 0) CHECK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return workspace;
}

static void expect(float got, float wanted, const char* what) {
  if (got == wanted) return;
  fprintf(stderr, "%s is %g, not %g\n", what, got, wanted);
  exit(EXIT_FAILURE);
}

int main(void) {
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = NULL;
  CHECK(aclrtCreateStream(&stream));

  float left[kCount];
  float right[kCount];
  for (int i = 0; i < kCount; ++i) {
    left[i] = (float)i;
    right[i] = i % (kSide + 1) == 0 ? 2.0f : 0.0f; /* twice the identity matrix */
  }
  void* memory[] = {new_device_memory(left), new_device_memory(right), new_device_memory(NULL), new_device_memory(NULL)};
  const int64_t vector[] = {kCount};
  const int64_t matrix[] = {kSide, kSide};
  uint64_t bytes = 0;
  aclOpExecutor* executor = NULL;

  aclTensor* a = new_tensor(vector, 1, memory[0]);
  aclTensor* b = new_tensor(vector, 1, memory[1]);
  aclTensor* sum = new_tensor(vector, 1, memory[2]);
  double one = 1.0;
  aclScalar* alpha = aclCreateScalar(&one, ACL_DOUBLE);
  CHECK(aclnnAddGetWorkspaceSize(a, b, alpha, sum, &bytes, &executor));
  CHECK(aclnnAdd(new_workspace(bytes), bytes, executor, stream));

  aclTensor* first = new_tensor(matrix, 2, memory[0]);
  aclTensor* second = new_tensor(matrix, 2, memory[1]);
  aclTensor* product = new_tensor(matrix, 2, memory[3]);
  CHECK(aclnnMmGetWorkspaceSize(first, second, product, 0, &bytes, &executor));
  CHECK(aclnnMm(new_workspace(bytes), bytes, executor, stream));

  CHECK(aclrtSynchronizeStream(stream));
  float added[kCount];
  CHECK(aclrtMemcpy(added, kBytes, memory[2], kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < kCount; ++i) expect(added[i], left[i] + right[i], "an element of the sum");

  const int64_t all[] = {0, 1};
  aclIntArray* dims = aclCreateIntArray(all, 2);
  aclTensor* total = new_tensor(NULL, 0, memory[2]);
  CHECK(aclnnReduceSumGetWorkspaceSize(product, dims, false, ACL_FLOAT, total, &bytes, &executor));
  CHECK(aclnnReduceSum(new_workspace(bytes), bytes, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(added, sizeof(float), memory[2], sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST));
  expect(added[0], 240.0f, "the sum of the product");
  printf("added %d numbers and multiplied two %d x %d matrices on %s\n", kCount, kSide, kSide, aclrtGetSocName());

  aclTensor* tensors[] = {a, b, sum, first, second, product, total};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) CHECK(aclDestroyTensor(tensors[i]));
  CHECK(aclDestroyScalar(alpha));
  CHECK(aclDestroyIntArray(dims));
  for (size_t i = 0; i < sizeof memory / sizeof *memory; ++i) CHECK(aclrtFree(memory[i]));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return EXIT_SUCCESS;
}
