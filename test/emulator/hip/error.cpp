// Error codes, their names, and the text of the last failure.
#include <atomic>
#include <cstdio>
#include <cstring>

#include "gfx950_hip.h"
#include "runtime.h"

namespace gfx950::hip {
namespace {

struct LastError {
  hipError_t code = hipSuccess;
  std::string text;
};

thread_local LastError thread_error;

std::mutex process_mutex;
std::string process_text;  // of the last failure on any thread
LastError pending;
std::atomic<bool> has_pending{false};
// The first failure whose call returned success: until somebody is told, what waits for the device returns it.
LastError deferred;
std::atomic<bool> has_deferred{false};

struct CodeName {
  hipError_t code;
  const char* name;
  const char* description;
};

constexpr CodeName kNames[] = {
    {hipSuccess, "hipSuccess", "no error"},
    {hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {hipErrorInvalidConfiguration, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {hipErrorInvalidDevicePointer, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {hipErrorInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {hipErrorInvalidDeviceFunction, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {hipErrorInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {hipErrorInvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {hipErrorNoBinaryForGpu, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {hipErrorInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {hipErrorNotFound, "hipErrorNotFound", "named symbol not found"},
    {hipErrorNotReady, "hipErrorNotReady", "device not ready"},
    {hipErrorIllegalAddress, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {hipErrorLaunchTimeOut, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {hipErrorHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered", "memory is already registered"},
    {hipErrorHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered", "memory is not registered"},
    {hipErrorAssert, "hipErrorAssert", "device-side assert triggered"},
    {hipErrorLaunchFailure, "hipErrorLaunchFailure", "unspecified launch failure"},
    {hipErrorNotSupported, "hipErrorNotSupported", "operation not supported"},
    {hipErrorStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {hipErrorStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {hipErrorStreamCaptureMerge, "hipErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {hipErrorStreamCaptureUnmatched, "hipErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {hipErrorStreamCaptureUnjoined, "hipErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {hipErrorStreamCaptureIsolation, "hipErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {hipErrorStreamCaptureImplicit, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {hipErrorCapturedEvent, "hipErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {hipErrorUnknown, "hipErrorUnknown", "unknown error"},
};

const CodeName* find(hipError_t code) {
  for (const CodeName& entry : kNames) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

}  // namespace

hipError_t fail(hipError_t code, const std::string& text) {
  thread_error = {code, text};
  std::lock_guard<std::mutex> lock(process_mutex);
  process_text = text;
  return code;
}

hipError_t fail_pending(hipError_t code, const std::string& text, bool later) {
  std::fprintf(stderr, "gfx950 emulator: %s\n", text.c_str());
  std::lock_guard<std::mutex> lock(process_mutex);
  if (!has_pending) {  // the first failure is the cause, later ones follow from it
    pending = {code, text};
    has_pending = true;
  }
  if (later && !has_deferred) {
    deferred = {code, text};
    has_deferred = true;
  }
  process_text = text;
  thread_error = {code, text};
  return code;
}

hipError_t deferred_error() {
  if (!has_deferred.load(std::memory_order_relaxed)) return hipSuccess;
  std::lock_guard<std::mutex> lock(process_mutex);
  if (!has_deferred) return hipSuccess;
  thread_error = deferred;
  process_text = deferred.text;
  return deferred.code;
}

hipError_t code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_image:
      return hipErrorInvalidImage;
    case ErrorKind::unsupported_target:
      return hipErrorNoBinaryForGpu;
    case ErrorKind::unsupported_instruction:
      return hipErrorNotSupported;
    case ErrorKind::invalid_launch:
      return hipErrorInvalidConfiguration;
    case ErrorKind::memory_fault:
      return hipErrorIllegalAddress;
    case ErrorKind::hazard:
    case ErrorKind::trap:
      return hipErrorLaunchFailure;
    case ErrorKind::timeout:
      return hipErrorLaunchTimeOut;
  }
  return hipErrorUnknown;
}

}  // namespace gfx950::hip

using namespace gfx950::hip;

extern "C" {

const char* hipGetErrorName(hipError_t error) {
  const CodeName* entry = find(error);
  return entry ? entry->name : "hipErrorUnknown";
}

// For the failure that this thread saw last, the emulator's own words: callers such as Triton print nothing else. Who
// asks has been told, so the failure is no longer pending.
const char* hipGetErrorString(hipError_t error) {
  if (error != hipSuccess && error == thread_error.code) {
    std::lock_guard<std::mutex> lock(process_mutex);
    if (has_pending && pending.code == error) has_pending = false;
    if (has_deferred && deferred.code == error) has_deferred = false;
    return thread_error.text.c_str();
  }
  const CodeName* entry = find(error);
  return entry ? entry->description : "unknown error";
}

const char* gfx950_error_description(int code) {
  const CodeName* entry = find(static_cast<hipError_t>(code));
  return entry ? entry->description : "unknown error";
}

hipError_t hipGetLastError() {
  const hipError_t code = thread_error.code;
  thread_error.code = hipSuccess;
  return code;
}

hipError_t hipPeekAtLastError() { return thread_error.code; }

const char* gfx950_last_error() {
  thread_local std::string copy;
  std::lock_guard<std::mutex> lock(process_mutex);
  copy = process_text;
  return copy.c_str();
}

int gfx950_has_pending_error() { return has_pending.load(std::memory_order_relaxed) ? 1 : 0; }

int gfx950_take_pending_error(char* buffer, size_t size) {
  std::lock_guard<std::mutex> lock(process_mutex);
  if (!has_pending) return 0;
  has_pending = has_deferred = false;
  if (buffer && size) {
    const size_t length = std::min(size - 1, pending.text.size());
    std::memcpy(buffer, pending.text.data(), length);
    buffer[length] = 0;
  }
  return pending.code;
}

}  // extern "C"
