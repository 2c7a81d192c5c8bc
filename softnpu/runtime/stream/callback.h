// Functions of the client that a stream calls.
//
// aclrtLaunchHostFunc runs them on the stream's own thread. aclrtLaunchCallback hands them, as reports, to a thread of the client
// that subscribed to the stream and loops in aclrtProcessReport.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "acl/acl_rt.h"
#include "runtime/base/deadline.h"
#include "runtime/base/futex.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream.h"

namespace softnpu {

// Puts `function` on the stream; later tasks wait until it returns. It must not wait for the device.
Status launch_host_function(Stream& stream, aclrtHostFunc function, void* argument);

// Which thread takes the reports of which stream. Thread-safe; one per process.
class Reports {
 public:
  static Reports& instance();

  // ACL_ERROR_RT_STREAM_SUBSCRIBE if another thread has the stream.
  Status subscribe(uint64_t thread, Stream& stream);
  // ACL_ERROR_RT_STREAM_SUBSCRIBE if the thread does not have it. Reports that wait for the thread are dropped with its last
  // stream.
  Status unsubscribe(uint64_t thread, Stream& stream);

  // Ends the subscription of a stream that is being destroyed, if there is one.
  void forget(Stream& stream);

  // ACL_ERROR_RT_STREAM_NO_CB_REG if nobody subscribed. If `hold`, the stream's later tasks wait until the callback returned.
  Status launch(Stream& stream, aclrtCallback function, void* argument, bool hold);

  // Runs the calling thread's reports; waits for one until `deadline`. ACL_ERROR_RT_THREAD_SUBSCRIBE if the thread has no stream,
  // ACL_ERROR_RT_REPORT_TIMEOUT if none came, ACL_ERROR_RT_STREAM_ABORT when the process exits.
  Status process(Deadline deadline);

  void clear();
  // When the process exits: process() returns on every thread.
  void wake_for_exit();

 private:
  struct Report;
  struct Mailbox;
  static const SoftnpuTaskKind kDeliverKind;
  static const SoftnpuTaskKind kHoldKind;

  std::shared_ptr<Mailbox> mailbox_of(uint64_t thread);
  void end_subscription(std::map<Stream*, uint64_t>::iterator subscription);

  std::mutex mutex_;  // guards both maps
  std::map<Stream*, uint64_t> subscriber_;
  std::map<uint64_t, std::shared_ptr<Mailbox>> mailboxes_;
};

}  // namespace softnpu
