#include "sync_debug.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "capi.h"

namespace gfx950::torch_device {
namespace {
std::atomic<SyncDebugMode> mode_of_process{SyncDebugMode::off};
}

void set_sync_debug_mode(SyncDebugMode mode) { mode_of_process = mode; }
SyncDebugMode sync_debug_mode() { return mode_of_process.load(std::memory_order_relaxed); }

void warn_or_raise_on_sync() {
  const SyncDebugMode mode = sync_debug_mode();
  TORCH_CHECK(mode != SyncDebugMode::error, "called a synchronizing HIP operation");
  if (mode == SyncDebugMode::warn) TORCH_WARN("called a synchronizing HIP operation");
}

}  // namespace gfx950::torch_device

extern "C" {
using namespace gfx950::torch_device;
GFX950_EXPORT void gfx950_torch_set_sync_debug_mode(int mode) { set_sync_debug_mode(static_cast<SyncDebugMode>(mode)); }
GFX950_EXPORT int gfx950_torch_sync_debug_mode() { return static_cast<int>(sync_debug_mode()); }
}
