// Where the lines that workgroups ask for come from: the L1s and the L2 of one XCD, replayed with the recorded
// addresses; then the Infinity Cache and HBM by what the whole launch touches.
#pragma once

#include <cstdint>
#include <vector>

#include "params.h"
#include "trace.h"

namespace gfx950::timing {

// Of one static instruction, on average over the recorded accesses.
struct HitRates {
  double accesses = 0;
  double lines = 0;               // asked of L1
  double l1_miss = 0;             // of them, asked of L2
  double l2_miss = 0;             // of them, asked of the Infinity Cache
  double any_l1 = 0, any_l2 = 0;  // accesses with at least one such line
};

struct CacheResult {
  std::vector<HitRates> rates;  // by static instruction
  HitRates loads;               // all together
  double hbm_share = 0;         // of the lines that miss L2, those that HBM serves
  double footprint = 0;         // bytes of the allocations touched
  uint64_t lines = 0;           // replayed
};

// `groups`: recorded workgroups of one XCD, in the order of dispatch; `cu_of`: the compute unit of each. `scale`: the
// whole launch's accesses over the recorded ones. `cut_short`: the workgroups go on after what was recorded.
CacheResult replay(const std::vector<const GroupTrace*>& groups, const std::vector<unsigned>& cu_of,
                   const std::vector<Record>& records, const Allocations& allocations, const MachineParams& params,
                   double scale, bool cut_short);

}  // namespace gfx950::timing
