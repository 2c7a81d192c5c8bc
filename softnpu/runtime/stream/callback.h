// Functions of the client that a stream calls.
//
//   launch_host_function(stream, function, argument);               // aclrtLaunchHostFunc
//   Reports::instance().subscribe(thread, stream);                  // aclrtSubscribeReport
//   Reports::instance().launch(stream, function, argument, hold);   // aclrtLaunchCallback
//   Reports::instance().process(deadline);                          // aclrtProcessReport
//
// aclrtLaunchHostFunc runs the function on the worker thread of the stream. aclrtLaunchCallback runs it, as a report, on the
// thread of the client that subscribed to the stream and calls aclrtProcessReport in a loop.
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

// Submits a call of `function`; later tasks wait until it returns. It must not wait for the device.
Status launch_host_function(Stream& stream, aclrtHostFunc function, void* argument);

// The threads that run the callbacks (reports) of streams. Thread-safe; one object per process.
class Reports {
 public:
  static Reports& instance();

  // ACL_ERROR_RT_STREAM_SUBSCRIBE if a thread has subscribed to the stream already.
  Status subscribe(uint64_t thread, Stream& stream);
  // ACL_ERROR_RT_STREAM_SUBSCRIBE if the thread has not subscribed to the stream. With the last stream of a thread its waiting
  // reports are dropped.
  Status unsubscribe(uint64_t thread, Stream& stream);

  // Ends the subscription of a stream that is being destroyed, if there is one.
  void forget(Stream& stream);

  // ACL_ERROR_RT_STREAM_NO_CB_REG if no thread has subscribed. If `hold`, later tasks of the stream wait until the callback
  // returns.
  Status launch(Stream& stream, aclrtCallback function, void* argument, bool hold);

  // Runs the reports of the calling thread; waits until `deadline` for the first one. ACL_ERROR_RT_THREAD_SUBSCRIBE if the thread
  // has no stream, ACL_ERROR_RT_REPORT_TIMEOUT if there was no report, ACL_ERROR_RT_STREAM_ABORT when the process exits.
  Status process(Deadline deadline);

  void clear();
  // At process exit: makes process() return on every thread.
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
