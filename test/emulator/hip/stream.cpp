// Streams and events. Work is done when its call returns, so a stream only keeps its identity and an event only a time.
#include "runtime.h"

struct ihipStream_t {
  int device;
  int priority;
};

struct ihipEvent_t {
  bool timing;
  bool recorded;
  uint64_t picoseconds;
};

namespace gfx950::hip {
namespace {

LiveHandles streams, events;

constexpr unsigned kEventBlockingSync = 0x1, kEventDisableTiming = 0x2, kEventInterprocess = 0x4;
constexpr unsigned kStreamNonBlocking = 0x1;

hipError_t not_an_event(const char* call) {
  return fail(hipErrorInvalidHandle, std::string(call) + ": not a live event");
}

hipError_t captured(const char* call) {
  return fail(hipErrorCapturedEvent, std::string(call) + ": the event was last recorded in a stream that captures");
}

}  // namespace

void LiveHandles::add(const void* handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  handles_.insert(handle);
}

bool LiveHandles::remove(const void* handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.erase(handle) > 0;
}

bool LiveHandles::contains(const void* handle) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.count(handle) > 0;
}

bool valid_stream(hipStream_t stream) {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  return value <= 2 /* default, hipStreamLegacy, hipStreamPerThread */ || streams.contains(stream);
}

}  // namespace gfx950::hip

using namespace gfx950::hip;

extern "C" {

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
  if (!stream) return fail(hipErrorInvalidValue, "hipStreamCreate: null pointer");
  if (flags & ~kStreamNonBlocking) return fail(hipErrorInvalidValue, "hipStreamCreate: flags " + std::to_string(flags));
  *stream = new ihipStream_t{current_device(), priority};
  streams.add(*stream);
  return hipSuccess;
}

hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  if (!priority) return fail(hipErrorInvalidValue, "hipStreamGetPriority: null pointer");
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipStreamGetPriority: not a live stream");
  *priority = streams.contains(stream) ? stream->priority : 0;
  return hipSuccess;
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}

hipError_t hipStreamCreate(hipStream_t* stream) { return hipStreamCreateWithPriority(stream, 0, 0); }

hipError_t hipStreamDestroy(hipStream_t stream) {
  if (hipError_t error = check_wait("hipStreamDestroy", &stream)) return error;
  if (!streams.remove(stream)) return fail(hipErrorInvalidHandle, "hipStreamDestroy: not a live stream");
  delete stream;
  return hipSuccess;
}

hipError_t hipStreamQuery(hipStream_t stream) {
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipStreamQuery: not a live stream");
  return check_wait("hipStreamQuery", &stream);
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipStreamSynchronize: not a live stream");
  if (hipError_t error = check_wait("hipStreamSynchronize", &stream)) return error;
  return deferred_error();
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipStreamWaitEvent: not a live stream");
  if (!events.contains(event)) return not_an_event("hipStreamWaitEvent");
  return capture_event_wait(stream, event);
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  if (!event) return fail(hipErrorInvalidValue, "hipEventCreate: null pointer");
  if (flags & kEventInterprocess) return fail(hipErrorNotSupported, "hipEventCreate: interprocess events");
  if (flags & ~(kEventBlockingSync | kEventDisableTiming)) {
    return fail(hipErrorInvalidValue, "hipEventCreate: flags " + std::to_string(flags));
  }
  *event = new ihipEvent_t{!(flags & kEventDisableTiming), false, 0};
  events.add(*event);
  return hipSuccess;
}

hipError_t hipEventCreate(hipEvent_t* event) { return hipEventCreateWithFlags(event, 0); }

hipError_t hipEventDestroy(hipEvent_t event) {
  if (!events.remove(event)) return not_an_event("hipEventDestroy");
  forget_event(event);
  delete event;
  return hipSuccess;
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  if (!events.contains(event)) return not_an_event("hipEventRecord");
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipEventRecord: not a live stream");
  event->recorded = !capture_event_record(event, stream);
  event->picoseconds = clock_picoseconds();
  return hipSuccess;
}

hipError_t hipEventQuery(hipEvent_t event) {
  if (!events.contains(event)) return not_an_event("hipEventQuery");
  return is_captured_event(event) ? captured("hipEventQuery") : hipSuccess;
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  if (!events.contains(event)) return not_an_event("hipEventSynchronize");
  return is_captured_event(event) ? captured("hipEventSynchronize") : deferred_error();
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  if (!milliseconds) return fail(hipErrorInvalidValue, "hipEventElapsedTime: null pointer");
  if (!events.contains(start) || !events.contains(stop)) return not_an_event("hipEventElapsedTime");
  if (is_captured_event(start) || is_captured_event(stop)) return captured("hipEventElapsedTime");
  if (!start->timing || !stop->timing) {
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime: an event was created without timing");
  }
  if (!start->recorded || !stop->recorded) {
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime: an event was never recorded");
  }
  const auto elapsed = static_cast<int64_t>(stop->picoseconds - start->picoseconds);
  *milliseconds = static_cast<float>(static_cast<double>(elapsed) * 1e-9);
  return hipSuccess;
}

}  // extern "C"
