/* Records of tasks, of calls of the ABI, and of marks. libascendcl writes them; libmsprofiler and the plugin read them.
 *
 *   const SoftnpuProfiler* profiler = softnpuProfiler(SOFTNPU_PROFILER_VERSION);    // look it up with dlsym
 *   const int64_t session = profiler->start(SOFTNPU_RECORD_TASKS | SOFTNPU_RECORD_CALLS);
 *   ...
 *   profiler->stop(session, &visitor, &totals);                                     // the records since start()
 *
 * Sessions may overlap; each gets the records since its own start. A record is freed when every session has read it or has
 * stopped. While no session exists, a launch costs one predicted branch. Times are nanoseconds of CLOCK_REALTIME. Thread-safe.
 * Raise SOFTNPU_PROFILER_VERSION with every change of a layout in this file.
 */
#ifndef SOFTNPU_RUNTIME_PROFILER_H_
#define SOFTNPU_RUNTIME_PROFILER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SOFTNPU_PROFILER_VERSION = 2 };

enum {
  SOFTNPU_RECORD_TASKS = 1,   /* tasks of streams, and copies that run in the call */
  SOFTNPU_RECORD_CALLS = 2,   /* calls of the ABI on the host */
  SOFTNPU_RECORD_TENSORS = 4, /* shapes, data types and formats of the tensors of a kernel */
  SOFTNPU_LOG_SIGNATURES = 8  /* only in `on`, not for start(): set while the log has the level INFO or DEBUG; see `signature` */
};

enum { SOFTNPU_COPY_TO_DEVICE = 1, SOFTNPU_COPY_TO_HOST = 2, SOFTNPU_COPY_ON_DEVICE = 3, SOFTNPU_COPY_ON_HOST = 4 };

/* The stream number of a copy that ran in the calling thread, without a stream. */
#define SOFTNPU_NO_STREAM UINT32_MAX

typedef struct SoftnpuTaskRecord {
  const char* name; /* of the function, such as "aclnnAdd"; never freed */
  uint64_t enqueue_ns;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t task;        /* the number of the task on its stream */
  uint64_t correlation; /* equal to `correlation` of the call that launched the task */
  uint64_t external;    /* the newest number that the launching thread gave to push_external(); 0: none */
  uint64_t bytes;       /* of a copy, fill or collective; 0 for other tasks */
  int32_t device;
  uint32_t stream;
  uint32_t thread;    /* the thread that launched the task: its gettid() */
  uint32_t direction; /* SOFTNPU_COPY_*, or 0 */
  uint32_t skipped;   /* 1: the task did not run, because an earlier task failed or the stream was aborted */
  uint32_t words;     /* length of `tensors` */
  /* Each tensor is a word and then its sizes. The word is rank | data type << 8 | format << 24 | (1 << 40 if it is written).
   * Valid during the visit. */
  const int64_t* tensors;
} SoftnpuTaskRecord;

typedef struct SoftnpuCallRecord {
  const char* name;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t correlation; /* of the last task that the call launched; 0 if it launched none */
  uint32_t thread;
} SoftnpuCallRecord;

typedef struct SoftnpuMarkRecord {
  const char* text; /* valid during the visit */
  uint64_t start_ns;
  uint64_t end_ns; /* equal to start_ns for a mark */
  uint32_t thread;
  uint32_t stream; /* SOFTNPU_NO_STREAM if the mark has none */
} SoftnpuMarkRecord;

/* Functions that receive the records, on the thread that calls read() or stop(). They must not call the device. A null function
 * skips its records. */
typedef struct SoftnpuRecordVisitor {
  void* context;
  void (*task)(void* context, const SoftnpuTaskRecord* record);
  void (*call)(void* context, const SoftnpuCallRecord* record);
  void (*mark)(void* context, const SoftnpuMarkRecord* record);
} SoftnpuRecordVisitor;

typedef struct SoftnpuRecordTotals {
  uint64_t dropped;    /* records that did not fit into the memory for records */
  uint64_t unfinished; /* tasks that had not ended at stop(); no record of them is visited */
} SoftnpuRecordTotals;

typedef struct SoftnpuProfiler {
  uint32_t version;

  /* The SOFTNPU_RECORD_* bits of all sessions, and SOFTNPU_LOG_SIGNATURES. Usually 0. Read it atomically. */
  const uint32_t* on;

  /* Begins a session and returns its number, which is above 0. */
  int64_t (*start)(uint32_t what);
  /* Visits the complete records that this session has not visited yet. False if the session does not exist. */
  bool (*read)(int64_t session, const SoftnpuRecordVisitor* visitor);
  /* Does the same as read(), and ends the session. `totals` may be null. Does not wait for tasks. */
  bool (*stop)(int64_t session, const SoftnpuRecordVisitor* visitor, SoftnpuRecordTotals* totals);

  uint64_t (*now)(void);

  /* For libraries that launch tasks, while `on` has SOFTNPU_RECORD_TASKS: describes the next task of this thread. */
  void (*describe_next)(uint64_t bytes, uint32_t direction, const int64_t* tensors, uint32_t words);
  /* For libraries that launch operators, while `on` has SOFTNPU_LOG_SIGNATURES: writes a line into the log if this is the first
   * launch of the operator `name` with these shapes, data types and formats. */
  void (*signature)(const char* name, const int64_t* tensors, uint32_t words);
  /* For other libraries of softnpu, while `on` has SOFTNPU_RECORD_CALLS: records a call of this thread that began at `start_ns`
   * and ends now. `name` must never be freed. The call gets the correlation of the last task that the thread launched. */
  void (*call)(const char* name, uint64_t start_ns);
  /* Adds a mark or range of the client. Does nothing without a session. */
  void (*mark)(const char* text, size_t length, uint64_t start_ns, uint64_t end_ns, uint32_t stream);
  /* Each thread has a stack of numbers that the client chooses, such as the number of its operator. The newest number is stored
   * in the records of tasks (`external`). Both do nothing without a session. */
  void (*push_external)(uint64_t number);
  void (*pop_external)(void);
} SoftnpuProfiler;

/* Null if `version` differs from the version that libascendcl was built with. */
__attribute__((visibility("default"))) const SoftnpuProfiler* softnpuProfiler(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_RUNTIME_PROFILER_H_ */
