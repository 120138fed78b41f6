// Data-parallel primitives: source 0 of a vector instruction taken from another lane.
#pragma once

#include <cstdint>

namespace gfx950::exec {

struct Wave;

// `dpp` is the instruction's second dword.
bool dpp_supported(uint32_t dpp);

// Where each lane reads from, worked out once per instruction.
struct DppMap {
  alignas(32) int32_t from[64];  // 0 where there is no source
  uint64_t has_source = 0;       // lanes whose source lies within the row or wave
  uint64_t selected = 0;         // by row and bank mask
  bool bound_ctrl = false;
};
DppMap dpp_map(uint32_t dpp);

// out[l] = row[source lane of l] for `words` rows. A source that is absent or off in EXEC gives 0 under BOUND_CTRL.
// Returns the lanes that may be written: a valid source (or BOUND_CTRL), and selected.
uint64_t dpp_move(const Wave& w, const DppMap& map, const uint32_t* row, uint32_t* out, int words);

}  // namespace gfx950::exec
