/* Functions of the software device beyond AscendCL, for tests and debugging. Look them up with dlsym: the libascendcl of a card
 * does not export them.
 *
 *   char reply[4096];
 *   softnpuControl("help", reply, sizeof reply);
 *
 * A command is a word and its arguments, separated by spaces; docs/checks.md describes each. The reply is text, truncated to
 * `reply_bytes` and terminated by a zero. A bad command changes nothing and fails with ACL_ERROR_INVALID_PARAM. Needs no aclInit.
 * Thread-safe.
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
  SOFTNPU_ORIGIN_RACES = 1,   /* called by each launch while SOFTNPU_RACE_CHECK is on */
  SOFTNPU_ORIGIN_FAILURES = 2 /* called when a task fails inside the call that launched it */
};

/* Sets the function that names the place in the client's program, for reports. `origin` writes the place into `text`, which holds
 * `bytes`, terminates it by a zero and returns its length, or 0 if the place is unknown. It is called on the thread that makes
 * the call, with no lock held, for the given `reports` (a set of SOFTNPU_ORIGIN_*). Null removes the function. */
__attribute__((visibility("default"))) void softnpuSetOrigin(int (*origin)(char* text, size_t bytes), unsigned reports);

#ifdef __cplusplus
}
#endif

#endif /* SOFTNPU_SOFTNPU_H_ */
