// torch.cuda.set_sync_debug_mode: whoever waits for the device is told of it.
#pragma once

namespace gfx950::torch_device {

enum class SyncDebugMode { off, warn, error };
void set_sync_debug_mode(SyncDebugMode mode);
SyncDebugMode sync_debug_mode();

// Called where a real device would make the host wait: it warns or raises, in torch's words, as the mode says.
void warn_or_raise_on_sync();

}  // namespace gfx950::torch_device
