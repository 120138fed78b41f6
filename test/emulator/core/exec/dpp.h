// Data-parallel primitives: source 0 of a vector instruction taken from another lane.
#pragma once

#include <cstdint>

namespace gfx950::exec {

struct Wave;

// `dpp` is the instruction's second dword.
bool dpp_supported(uint32_t dpp);

// out[l] = row[source lane of l] for `words` rows. Lanes without a valid source get 0 under BOUND_CTRL. Returns the lanes
// that may be written: a valid source (or BOUND_CTRL), and enabled by row and bank mask.
uint64_t dpp_move(const Wave& w, uint32_t dpp, const uint32_t* row, uint32_t* out, int words);

}  // namespace gfx950::exec
