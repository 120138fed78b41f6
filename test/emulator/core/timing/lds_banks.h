// Clocks that an LDS access occupies the LDS unit for, from the addresses of its lanes.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "params.h"

namespace gfx950::timing {

struct LdsCost {
  float clocks = 0;     // with conflicts
  float conflicts = 0;  // of them, those that conflicts add
};

class LdsBanks {
 public:
  explicit LdsBanks(const MachineParams& params) : params_(params) {}
  // `at`: byte addresses, of the lanes in `on`.
  LdsCost cost(const uint32_t* at, uint64_t on, unsigned bytes, bool write);
  // Without addresses: lane exchanges, DMA.
  LdsCost straight(unsigned bytes) const { return {static_cast<float>(bytes / params_.lds_bytes_per_clk), 0}; }

 private:
  LdsCost compute(const uint32_t* at, uint64_t on, unsigned bytes, bool write) const;

  const MachineParams& params_;
  std::unordered_map<uint64_t, LdsCost> known_;  // by the pattern of the lanes
};

}  // namespace gfx950::timing
