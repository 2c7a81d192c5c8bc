/* The tensors of operators, for dumps (runtime/dump/) and for the fault rule `wrong` (runtime/checks/faults.h).
 *
 *   softnpuDescribeOperators(describe);      // once, by the library whose task kinds have the flag SOFTNPU_TASK_OPERATOR
 *
 * The runtime calls `describe` twice with the payload of such a task: before the task runs, and after it has succeeded. Both
 * calls are on the thread that runs the task.
 */
#ifndef SOFTNPU_RUNTIME_OPERATORS_H_
#define SOFTNPU_RUNTIME_OPERATORS_H_

#include <stdint.h>

#include "runtime/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SOFTNPU_TENSOR_READ = 1,   /* the operator reads the values that the tensor has before the task runs */
  SOFTNPU_TENSOR_WRITTEN = 2 /* the operator writes the tensor; a tensor may have both flags */
};

typedef struct SoftnpuOperatorTensor {
  void* data; /* kernel address of the first element; may be null for a tensor without elements */
  const int64_t* sizes;
  const int64_t* strides; /* in elements, never negative */
  int32_t ndim;
  int32_t dtype;  /* an aclDataType */
  int32_t format; /* an aclFormat */
  uint32_t bytes; /* of one element */
  uint32_t flags; /* SOFTNPU_TENSOR_* */
} SoftnpuOperatorTensor;

typedef void (*SoftnpuTensorVisitor)(void* context, const SoftnpuOperatorTensor* tensor);

/* Calls `visitor` with each tensor, in the order of the parameters. If the kernel decides the shape of an output, the call after
 * the task gives that shape. */
typedef void (*SoftnpuOperatorDescriber)(const void* payload, SoftnpuTensorVisitor visitor, void* context);

__attribute__((visibility("default"))) void softnpuDescribeOperators(SoftnpuOperatorDescriber describe);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_RUNTIME_OPERATORS_H_ */
