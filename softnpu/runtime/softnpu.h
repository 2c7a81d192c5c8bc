/* What the software device can do beyond AscendCL, for tests and debugging. A card's libascendcl has no such symbol: look it up.
 *
 *   char reply[4096];
 *   softnpuControl("help", reply, sizeof reply);
 *
 * A command is a word and its arguments, separated by spaces; docs/checks.md describes each. The answer is text, cut to fit and
 * always ended by a zero. A bad command changes nothing and fails with ACL_ERROR_INVALID_PARAM. Needs no aclInit. Thread-safe.
 */
#ifndef SOFTNPU_SOFTNPU_H_
#define SOFTNPU_SOFTNPU_H_

#include <stddef.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `reply` may be null where `reply_bytes` is 0. */
__attribute__((visibility("default"))) aclError softnpuControl(const char* command, char* reply, size_t reply_bytes);

enum {
  SOFTNPU_ORIGIN_RACES = 1,   /* asked by each launch while SOFTNPU_RACE_CHECK is on */
  SOFTNPU_ORIGIN_FAILURES = 2 /* asked only when a task failed that ran within the call that launched it */
};

/* Lets reports name the place in the client's program that made a call. `origin` writes it into `text`, which holds `bytes`, ends
 * it by a zero and returns its length, or 0 if it does not know; it is called on the thread that makes the call, with no lock
 * held, for the `reports` (a set of SOFTNPU_ORIGIN_*) that are wanted. Null ends that. */
__attribute__((visibility("default"))) void softnpuSetOrigin(int (*origin)(char* text, size_t bytes), unsigned reports);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_SOFTNPU_H_ */
