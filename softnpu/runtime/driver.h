/* The private door between the softnpu libraries: how libopapi and libhccl put work on a stream of libascendcl.
 *
 *   const SoftnpuDriver *driver = softnpuDriver(SOFTNPU_DRIVER_VERSION);   // by dlsym: a foreign libascendcl has no such symbol
 *   driver->launch(stream, &kAddKind, &arguments, sizeof arguments, elements);
 *
 * Not an interface for clients: version and layout change together, and libraries of different versions refuse each other.
 */
#ifndef SOFTNPU_RUNTIME_DRIVER_H_
#define SOFTNPU_RUNTIME_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SOFTNPU_DRIVER_VERSION = 5, SOFTNPU_TASK_PAYLOAD = 96, SOFTNPU_TASK_MESSAGE = 512 };

enum {
  SOFTNPU_TASK_ON_WORKER = 1, /* runs host code of the client: only the stream's own thread may run it */
  SOFTNPU_TASK_ALWAYS = 2,    /* runs even where an earlier failure makes the stream skip its tasks */
  SOFTNPU_TASK_OUTSIDE = 4 /* `ready` looks at what no stream of this process orders: the race check judges nothing behind it */
};

enum {
  SOFTNPU_ACCESS_WRITES = 1, /* writes, and perhaps reads; without it the range is only read */
  SOFTNPU_ACCESS_ATOMIC = 2  /* one whole word at once: never in conflict with another such access */
};

/* Takes one range of memory that a task touches, by the address that kernels use. */
typedef void (*SoftnpuAccessVisitor)(void* context, const void* address, size_t bytes, uint32_t flags);

enum {
  SOFTNPU_LIMITS_CHIP = 1,      /* operators have the limits of a chip (SOFTNPU_CHIP_LIMITS) */
  SOFTNPU_LIMITS_SATURATION = 2 /* a device was asked to saturate; see `saturates` */
};

/* More pieces than this are better reported as the one range that contains them. */
enum { SOFTNPU_MOST_PIECES = 1024 };

/* What a task does. One constant object per kind; a task is a kind and a copy of its payload. */
typedef struct SoftnpuTaskKind {
  /* Shown in errors and profiles, for example "aclnnAdd". */
  const char* name;
  /* Does the work, on whichever thread drains the stream. Must leave the payload fit to be run again (graphs replay tasks).
   * Returns an aclError; on failure writes a sentence for the user into `message`, which holds SOFTNPU_TASK_MESSAGE bytes. */
  aclError (*run)(void* payload, char* message);
  /* Called once when the task leaves the stream for good, run or skipped. May be null. */
  void (*release)(void* payload);
  /* False while the task has to wait for something outside its stream. Null means always ready. Called often: must be cheap. */
  bool (*ready)(const void* payload);
  uint32_t flags;
  /* Tells `visitor` every range that `run` will touch, for the race check (runtime/checks/races.h). Called before the task is
   * queued and only if that check is on. Null means that nobody is told. */
  void (*visit)(const void* payload, SoftnpuAccessVisitor visitor, void* context);
} SoftnpuTaskKind;

typedef struct SoftnpuDriver {
  uint32_t version;

  /* Device addresses are [device_begin, device_end); kernels use address + alias_offset. */
  uintptr_t device_begin;
  uintptr_t device_end;
  intptr_t alias_offset;
  /* Changes after device memory was freed: what find_allocation() answered before may be wrong then. Read it atomically. */
  const uint64_t* frees;

  /* Puts a task on `stream` (null: the default stream of the current context). `payload` of `bytes` <= SOFTNPU_TASK_PAYLOAD is
   * copied. `cost` is about how many elements the task touches: a cheap task on an idle stream runs before launch returns. On
   * failure the payload is not released, and aclGetRecentErrMsg says why. */
  aclError (*launch)(aclrtStream stream, const SoftnpuTaskKind* kind, const void* payload, size_t bytes, uint64_t cost);

  /* Where kernels see [pointer, pointer + bytes): device memory inside one live allocation, pinned or registered host memory. */
  aclError (*alias)(const void* pointer, size_t bytes, void** alias);

  /* The live allocation of device memory around `pointer`; false if there is none. */
  bool (*find_allocation)(const void* pointer, uintptr_t* begin, size_t* bytes);

  /* Records a failure of `function` as this thread's recent error, writes it to the log, and returns `code`. */
  aclError (*fail)(const char* function, aclError code, const char* message);

  /* Sets the overflow flag that aclrtGetOverflowStatus reads, on the device whose memory lies at this kernel address. For tasks.
   */
  void (*raise_overflow)(const void* kernel_address);

  /* Null unless red zones are on. Fails, with a sentence in `message`, if the red zone of the live allocation at this kernel
   * address is damaged; each damage once. Other addresses are fine. For tasks that have just run. */
  aclError (*check_zones)(const void* kernel_address, char* message);

  /* A set of SOFTNPU_LIMITS_*, 0 as a rule. Read it atomically. */
  const uint32_t* limits;

  /* Whether the device whose memory lies at this kernel address saturates, as aclrtSetDeviceSatMode asks for. */
  bool (*saturates)(const void* kernel_address);
} SoftnpuDriver;

/* The driver, or null where `version` is not the one this library has. */
__attribute__((visibility("default"))) const SoftnpuDriver* softnpuDriver(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_RUNTIME_DRIVER_H_ */
