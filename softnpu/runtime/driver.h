/* The private interface between the softnpu libraries: tasks on streams. libascendcl implements it; libopapi, libhccl and
 * libmsprofiler use it. Its smaller companions are operators.h, profiler.h and abort.h.
 *
 *   #pragma weak softnpuDriver                                    // a foreign libascendcl does not export it
 *   const SoftnpuDriver *driver = softnpuDriver != NULL ? softnpuDriver(SOFTNPU_DRIVER_VERSION) : NULL;
 *   driver->launch(stream, &kAddKind, &arguments, sizeof arguments, elements);
 *
 * A library links libascendcl with softnpuDriver as a weak symbol (ops/library.cpp). The address is null where the loaded
 * libascendcl is not softnpu's. The result is null where the two libraries were built from different versions of this file.
 * A new need of a library becomes a member of SoftnpuDriver, and SOFTNPU_DRIVER_VERSION is raised with every change of a layout
 * in this file. Clients do not include this file.
 */
#ifndef SOFTNPU_RUNTIME_DRIVER_H_
#define SOFTNPU_RUNTIME_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SOFTNPU_DRIVER_VERSION = 7, SOFTNPU_TASK_PAYLOAD = 96, SOFTNPU_TASK_MESSAGE = 512 };

enum {
  SOFTNPU_TASK_ON_WORKER = 1, /* calls a function of the client; runs only on the stream's own thread */
  SOFTNPU_TASK_ALWAYS = 2,    /* runs even where an earlier failure makes the stream skip its tasks */
  SOFTNPU_TASK_OUTSIDE = 4,   /* `ready` depends on something that no stream of this process orders; see checks/races.h */
  SOFTNPU_TASK_OPERATOR = 8   /* the function given to softnpuDescribeOperators (operators.h) lists the task's tensors */
};

enum {
  SOFTNPU_ACCESS_WRITES = 1, /* the task writes the range and may read it; without this flag it only reads the range */
  SOFTNPU_ACCESS_ATOMIC = 2  /* an atomic access of one word; two such accesses are never a race */
};

/* Receives one range of memory that a task accesses. `address` is the kernel address. */
typedef void (*SoftnpuAccessVisitor)(void* context, const void* address, size_t bytes, uint32_t flags);

enum {
  SOFTNPU_LIMITS_CHIP = 1,      /* operators have the limits of the chip (SOFTNPU_CHIP_LIMITS) */
  SOFTNPU_LIMITS_SATURATION = 2 /* aclrtSetDeviceSatMode set saturation for at least one device; see `saturates` */
};

/* A `visit` with more ranges than this reports one range that contains them all. */
enum { SOFTNPU_MOST_PIECES = 1024 };

/* The code of a task. There is one constant object per kind; a task is a pointer to its kind and a copy of its payload. */
typedef struct SoftnpuTaskKind {
  /* Shown in errors and profiles, for example "aclnnAdd". */
  const char* name;
  /* Does the work, on the thread that runs the stream's tasks now. Graphs call it again with the same payload. Returns an
   * aclError; on failure it writes a sentence for the user into `message`, which holds SOFTNPU_TASK_MESSAGE bytes. */
  aclError (*run)(void* payload, char* message);
  /* Called once when the task leaves the stream for good, run or skipped. May be null. */
  void (*release)(void* payload);
  /* False while the task has to wait for something outside its stream. Null means always ready. It is polled: keep it cheap. */
  bool (*ready)(const void* payload);
  uint32_t flags;
  /* Calls `visitor` with every range that `run` will access, for the race check (runtime/checks/races.h). Called before the task
   * is queued and only while that check is on. With null the check sees no access of this kind. */
  void (*visit)(const void* payload, SoftnpuAccessVisitor visitor, void* context);
} SoftnpuTaskKind;

typedef struct SoftnpuDriver {
  uint32_t version;

  /* Device addresses are [device_begin, device_end); kernels use address + alias_offset. */
  uintptr_t device_begin;
  uintptr_t device_end;
  intptr_t alias_offset;
  /* A counter of frees of device memory. While it is unchanged, earlier results of find_allocation() are valid. Read it
   * atomically. */
  const uint64_t* frees;

  /* Puts a task on `stream` (null: the default stream of the current context). `payload` of `bytes` <= SOFTNPU_TASK_PAYLOAD is
   * copied. `cost` is the approximate number of elements: a cheap task on an idle stream runs before launch returns. On failure
   * the payload is not released, and aclGetRecentErrMsg has the reason. */
  aclError (*launch)(aclrtStream stream, const SoftnpuTaskKind* kind, const void* payload, size_t bytes, uint64_t cost);

  /* Translates `pointer` to the kernel address. [pointer, pointer + bytes) must lie in one live allocation of device memory, or
   * in pinned or registered host memory. */
  aclError (*alias)(const void* pointer, size_t bytes, void** alias);

  /* Finds the live allocation of device memory that contains `pointer`; false if there is none. */
  bool (*find_allocation)(const void* pointer, uintptr_t* begin, size_t* bytes);

  /* Records a failure of `function` as this thread's recent error, writes it to the log, and returns `code`. */
  aclError (*fail)(const char* function, aclError code, const char* message);

  /* For tasks: sets the overflow flag, which aclrtGetOverflowStatus reads, of the device that owns this kernel address. */
  void (*raise_overflow)(const void* kernel_address);

  /* Null unless red zones are on. For tasks, after their work: fails, with a sentence in `message`, if the red zone of the live
   * allocation that contains this kernel address is damaged. Each damage is reported once. Other addresses succeed. */
  aclError (*check_zones)(const void* kernel_address, char* message);

  /* A set of SOFTNPU_LIMITS_*, usually 0. Read it atomically. */
  const uint32_t* limits;

  /* Whether aclrtSetDeviceSatMode set saturation for the device that owns this kernel address. */
  bool (*saturates)(const void* kernel_address);

  /* Changes a captured task. Calls `alter` with the tasks that were captured on `stream`, newest first, until it returns true.
   * `alter` may change the payload, and may replace the kind by one of the same name and flags. Returns whether `alter` returned
   * true. */
  bool (*alter_captured)(aclrtStream stream, bool (*alter)(const SoftnpuTaskKind** kind, void* payload, void* context),
                         void* context);

  /* The file behind [pointer, pointer + bytes) of device memory, and where in it the range lies in one piece: how another process
   * of the user reads the range, through /proc. The file stays open as long as the device. False where there is no such file. */
  bool (*find_file)(const void* pointer, size_t bytes, int* file, uint64_t* offset);

  /* The host's number of a device that this process calls `device`; -1 if there is none. */
  int32_t (*host_device)(int32_t device);
} SoftnpuDriver;

/* Returns null if `version` differs from the SOFTNPU_DRIVER_VERSION that libascendcl was built with. */
__attribute__((visibility("default"))) const SoftnpuDriver* softnpuDriver(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_RUNTIME_DRIVER_H_ */
