// How much of this process's memory may be read from an address on.
#pragma once

#include <cstdint>

namespace gfx950::loader {

// Bytes from `data` to the end of the readable mappings that follow one another; 0 if `data` is in none. UINT64_MAX
// where the host does not list them.
uint64_t readable_bytes(const void* data);

}  // namespace gfx950::loader
