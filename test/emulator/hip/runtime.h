// State shared by the entry points: the error that a thread saw last, live handles, the virtual clock, statistics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "gfx950/gfx950.h"
#include "hip_functions.h"

namespace gfx950::hip {

// ---- hardware numbers (AMD Instinct MI355X product page and CDNA4 white paper)
// ------------------------------------------

inline constexpr const char* kDeviceName = "AMD Instinct MI355X (emulated)";
inline constexpr const char* kArchName = "gfx950:sramecc+:xnack-";
inline constexpr uint64_t kTotalMemory = 288ull << 30;
inline constexpr int kComputeUnits = 256;
inline constexpr int kWaveSize = 64;
inline constexpr int kLdsBytes = 160 << 10;
inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kMaxThreadsPerComputeUnit = 2048;  // 8 waves on each of 4 SIMDs
inline constexpr int kRegistersPerBlock = 65536;
inline constexpr int kL2Bytes = 4 << 20;  // of one XCD
inline constexpr int kClockKhz = 2400000;
inline constexpr int kMemoryClockKhz = 2000000;
inline constexpr int kMemoryBusBits = 8192;
inline constexpr int kHipVersion = 7 * 10000000 + 1 * 100000 + 25424;

// ---- errors
// -----------------------------------------------------------------------------------------------------------

// Records code and text for this thread and returns the code.
hipError_t fail(hipError_t code, const std::string& text);
// The same for a launch or a module load: also printed once and kept pending until somebody is told.
// `later`: the call returns success, and what waits for the device returns the code until then.
hipError_t fail_pending(hipError_t code, const std::string& text, bool later = false);
// For what waits for the device: the code of a launch that failed while it ran and that nobody was told of.
hipError_t deferred_error();
hipError_t code_of(ErrorKind kind);

// ---- handles
// ----------------------------------------------------------------------------------------------------------

int device_count();  // GFX950_DEVICES
int current_device();
void set_current_device(int device);

// Addresses of the live objects of one type: a stale or foreign handle is an error, not a crash.
class LiveHandles {
 public:
  void add(const void* handle);
  bool remove(const void* handle);
  bool contains(const void* handle) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_set<const void*> handles_;
};

bool valid_stream(hipStream_t stream);
uint64_t memory_limit();

// ---- clock and statistics
// ---------------------------------------------------------------------------------------------

void advance_clock(double nanoseconds);
uint64_t clock_picoseconds();
// A launch that was only timed is not counted, but its report is kept.
void count_launch(const std::string& kernel_name, const LaunchResult& result);

enum class Link { device, host };  // both ends on a device, or one on the host
double copy_nanoseconds(size_t bytes, Link link);
double fill_nanoseconds(size_t bytes);

// Work on this thread is free while one lives: a capture computes shapes, which takes no time on the device.
void hold_clock(bool held);

// ---- capture
// ---------------------------------------------------------------------------------------------------------------------

// One piece of recorded work. `run` does it, charges the clock and returns what the call itself would have returned.
struct GraphNode {
  std::string name;
  std::function<hipError_t()> run;
};

// Whether `stream` records; then the node is added, or `code` says that the capture is broken already.
bool record(hipStream_t stream, hipError_t* code, const std::function<GraphNode()>& make_node);

// For calls that wait for the device or for a stream: while a capture forbids them, the error, and the capture is
// broken. hipSuccess otherwise. `stream` is null for the whole device.
hipError_t check_wait(const char* call, const hipStream_t* stream);

// Events: a record in a stream that captures marks a point of the graph, and a wait for it makes the waiting stream
// part of the capture. The first says whether the event was captured; then it holds no time.
bool capture_event_record(hipEvent_t event, hipStream_t stream);
hipError_t capture_event_wait(hipStream_t stream, hipEvent_t event);
bool is_captured_event(hipEvent_t event);
void forget_event(hipEvent_t event);

}  // namespace gfx950::hip
