// What a launch would cost on an MI350X, estimated from what its waves did. README.md says how, and how far to trust
// it.
#pragma once

#include <cstdint>

namespace gfx950::timing {

// One launch, summed over its waves.
struct Work {
  uint64_t workgroups = 0;
  uint32_t waves_per_group = 0;
  uint32_t lds_bytes_per_group = 0;                  // allocated
  uint32_t vgprs = 0;                                // per lane, architectural and accumulation
  uint64_t salu = 0, smem = 0, vmem = 0, other = 0;  // instructions
  uint64_t valu_slots = 0;                           // 4 clocks of a SIMD each
  uint64_t mfma_passes = 0;                          // 4 clocks of a SIMD's matrix unit each
  uint64_t lds_instructions = 0;
  uint64_t lds_bytes = 0;        // moved
  uint64_t global_bytes = 0;     // as requested by the lanes
  uint64_t footprint_bytes = 0;  // of the allocations touched
};

double nanoseconds(const Work& work);

}  // namespace gfx950::timing
