// An aclnn call: its two phases and its task on the stream.
//
//   Build build(kAdd, workspaceSize, executor);    // phase one: one line per parameter, in their order
//   build.tensor(self);
//   build.scalar(alpha);
//   return build.finish();                         // checks the arguments and gives the executor to the client
//
//   return launch(kAdd, executor, stream);         // phase two: puts the task on the stream
//
// Phase one copies the contents of all arguments, so that the client may destroy them after it; the executor then points only at
// device memory. A sync function also needs its output tensors in phase two, which sets their shapes. The two phases may run on
// two threads.
//
// An executor is used once: phase two ends its life, and the task gives the executor back to the pool. The client destroys it
// only if it does not call phase two. A repeatable executor stays live: each launch takes a copy, and the client destroys it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "ops/calls/operation.h"
#include "ops/library.h"
#include "ops/objects/objects.h"
#include "runtime/operators.h"

namespace softnpu::ops {

struct alignas(64) Executor : ObjectOf<aclOpExecutor, ObjectKind::kExecutor> {
  // The elements of one array or list parameter in a vector.
  struct Slice {
    uint32_t begin;
    uint32_t count;
    bool present;
  };
  // The place of a view in its storage, with which the view can be moved to another storage.
  struct Place {
    int64_t offset;           // bytes from the address of the storage to the first element
    int64_t bytes;            // from the first to the last element; 0 for an empty tensor
    uint32_t dims;            // index of the first size in `numbers`
    int32_t format;           // an aclFormat
    const aclTensor* tensor;  // the argument
  };
  union Value {
    int64_t integer;
    double real;
  };

  const Operation* operation = nullptr;
  std::atomic<int> owners{0};
  uint64_t cost = 0;                        // elements of the largest tensor
  uint64_t absent_scalars = 0;              // one bit per parameter of kind kScalar
  c10::SmallVector<TensorView, 6> views;    // single tensors in the order of the parameters, then elements of lists
  c10::SmallVector<Place, 6> places;        // one per view
  c10::SmallVector<at::Scalar, 4> scalars;  // in the same order; an absent one is a bool, which the engine does not take
  c10::SmallVector<Value, 8> values;
  c10::SmallVector<Slice, 4> slices;      // one per array or list parameter, in order
  c10::SmallVector<int64_t, 64> numbers;  // sizes and strides of views, elements of int and bool arrays
  c10::SmallVector<double, 4> reals;      // elements of float arrays
  c10::SmallVector<std::string, 1> strings;
  c10::SmallVector<c10::SmallVector<int64_t, 4>, 1> result_sizes;  // of a sync function: the sizes of each view after the kernel
};

// Phase one. After a failure the other arguments are ignored, and finish() returns it.
class Build {
 public:
  Build(const Operation& operation, uint64_t* workspace_size, aclOpExecutor** executor);
  Build(const Build&) = delete;
  Build& operator=(const Build&) = delete;
  ~Build();

  void tensor(const aclTensor* handle);
  void scalar(const aclScalar* handle);
  void integer(int64_t value);
  void real(double value);
  void text(const char* value);
  void tensors(const aclTensorList* handle);
  void scalars(const aclScalarList* handle);
  void integers(const aclIntArray* handle);
  void reals(const aclFloatArray* handle);
  void flags(const aclBoolArray* handle);

  aclnnStatus finish();

 private:
  // The next parameter, or null after a failure.
  const ParameterInfo* next();
  bool present(const ParameterInfo& parameter, const void* object);
  // The object of a parameter; null if the parameter is absent or was refused.
  template <typename T>
  const T* object_of(const ParameterInfo& parameter, const typename T::Handle* handle);
  template <typename T>
  const T* element_of(const ParameterInfo& parameter, const typename T::Handle* handle, size_t number);
  void refuse(aclnnStatus code, const ParameterInfo& parameter, const std::string& reason);
  void describe(const ParameterInfo& parameter, const aclTensor* handle, const TensorObject& tensor, TensorView& view,
                Executor::Place& place);

  const Operation& operation_;
  uint64_t* const workspace_size_;
  aclOpExecutor** const result_;
  Executor* executor_ = nullptr;  // owned until finish() succeeds
  int next_parameter_ = 0;
  int next_tensor_ = 0;
  int next_scalar_ = 0;
  Status status_;
};

// Phase two. Waits for the kernel only if the function is a sync function.
aclnnStatus launch(const Operation& operation, aclOpExecutor* handle, aclrtStream stream);

// Repeatable executors. The caller of find_repeatable() and end_repeatable() holds the mutex while it uses the executor.
std::mutex& repeatable_mutex();
bool make_repeatable(const aclOpExecutor* handle);       // false if it is not live
Executor* find_repeatable(const aclOpExecutor* handle);  // null if it is not live, or not repeatable
Executor* end_repeatable(const aclOpExecutor* handle);   // the same

// The functions of the task of every generated Operation.
aclError run_task(void* payload, char* message);
void release_task(void* payload);
void visit_task(const void* payload, SoftnpuAccessVisitor visitor, void* context);
// The function that libopapi gives to softnpuDescribeOperators.
void describe_task(const void* payload, SoftnpuTensorVisitor visitor, void* context);

constexpr SoftnpuTaskKind task_kind(const char* name) {
  return {.name = name,
          .run = run_task,
          .release = release_task,
          .ready = nullptr,
          .flags = SOFTNPU_TASK_OPERATOR,
          .visit = visit_task};
}

// Calls visit(parameter, number of the view) for each tensor, also for the elements of lists.
template <class Visit>
void for_each_view(const Executor& executor, Visit visit) {
  const Operation& operation = *executor.operation;
  uint32_t single = 0;
  size_t slice = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    const ParameterInfo& parameter = operation.parameters[i];
    Executor::Slice views{single, 1, true};
    if (parameter.kind >= ParameterKind::kTensorList) views = executor.slices[slice++];
    if (parameter.kind == ParameterKind::kTensor) ++single;
    if (!parameter.is_tensor()) continue;
    for (uint32_t view = views.begin; view < views.begin + views.count; ++view) visit(parameter, view);
  }
}

// Sets the data pointer of a view whose storage lies at `address`.
Status locate_view(void* address, const Executor::Place& place, TensorView& view);

// Sets the pointers of the views to their sizes and strides. To be called after the last change of `numbers`.
void point_at_dims(Executor& executor);

// Empties an executor that is not live and gives it back to the pool.
void recycle(Executor* executor);

// The arguments of a call for error messages: "self: float32[2, 3], alpha: 1".
std::string describe_arguments(const Executor& executor);

}  // namespace softnpu::ops
