// What the emulated runtime offers beyond HIP: the virtual clock, launch statistics and errors in words. Plain C, so
// that Python reaches it through ctypes and the torch device library through a link.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// The virtual clock: nanoseconds since the process started, advanced only by modelled work. One per process, because
// streams and devices run one after another.
double gfx950_clock_now_ns();
uint64_t gfx950_clock_now_ps();  // the same, exact: for differences
void gfx950_clock_advance_ns(double nanoseconds);

// Launches that finished without an error, by kernel name. `gfx950_launch_statistics` writes a JSON object
// {name: {"launches", "nanoseconds", and the fields of LaunchCounts}} and returns the bytes it needs with the final
// NUL; a smaller `size` gets nothing.
uint64_t gfx950_launch_count(const char* kernel_name);
size_t gfx950_launch_statistics(char* buffer, size_t size);
void gfx950_reset_launch_statistics();

// What the timing model says of a kernel's last launch, as JSON (test/emulator/core/timing/README.md); "null" if there
// was none. Returns the bytes needed with the final NUL; a smaller `size` gets nothing.
size_t gfx950_timing_report(const char* kernel_name, char* buffer, size_t size);
// The model's numbers with their sources, as JSON; null and gfx950_last_error() if GFX950_TIMING_PARAMS is wrong.
size_t gfx950_timing_parameters(char* buffer, size_t size);
// 2: launches execute only what their modelled time asks for, write nothing, and are not counted; kernels that cannot
// be timed in this way are refused. 1: such kernels run as usual. 0: all do. Returns the mode before; for the whole
// process.
int gfx950_set_timing(int mode);

// Text of the last failure in this process; "" if there was none. Valid until the next call on the same thread.
const char* gfx950_last_error();

// Called around every kernel: a profiler's range. `end` gets what `begin` returned. Null removes them.
void gfx950_observe_kernels(void* (*begin)(const char* kernel), void (*end)(void* range));

// HIP's own words for a code.
const char* gfx950_error_description(int code);

// What is wrong with the GFX950_ variables that launches read; null if nothing is. Valid as the text above.
const char* gfx950_check_environment();

// A failed launch stays pending until somebody is told, as an asynchronous error does on hardware: callers that ignore
// the code of hipModuleLaunchKernel must not go on with wrong data. Returns the HIP code and clears it; 0 if none.
// `gfx950_has_pending_error` is cheap.
int gfx950_has_pending_error();
int gfx950_take_pending_error(char* buffer, size_t size);

// Bytes that hipMalloc may hand out on a device (GFX950_MEMORY_LIMIT, or what the host has).
uint64_t gfx950_memory_limit();
int gfx950_device_count();

// Stream capture, for callers that record work of their own: ATen's operators run on the host. `captures_underway` is
// cheap. `capture_host_node` adds a node to the graph that the stream records into; `run` returns a HIP code, `release`
// frees the context with the last graph that holds the node. `hold_clock`: work on this thread takes no time meanwhile.
int gfx950_captures_underway();
int gfx950_capture_host_node(void* stream, const char* name, int (*run)(void*), void (*release)(void*), void* context);
void gfx950_hold_clock(int held);
// Marks the capture of a stream as broken and returns the code of a call that it does not permit.
int gfx950_refuse_in_capture(void* stream, const char* call);
// Whether [pointer, pointer + size) lies in one live allocation.
int gfx950_is_live(const void* pointer, size_t size);

// Advances the clock by one device-to-device or host-to-device copy of that many bytes.
void gfx950_charge_device_copy(size_t bytes);
void gfx950_charge_host_copy(size_t bytes);

}  // extern "C"
