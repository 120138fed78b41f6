// Sub-dword addressing: a source is a byte or a word of its register, a result goes into one.
#pragma once

#include <cstdint>

namespace gfx950::exec {

constexpr uint8_t kSelDword = 6;  // 0-3: byte, 4-5: word

void sdwa_select(uint32_t* row, uint8_t sel, bool sign_extend);

// `out` becomes what is to be written to `old`: its value in the selected part, the rest by `unused` (0 zero, 1 sign, 2
// old).
void sdwa_merge(uint32_t* out, const uint32_t* old, uint8_t sel, uint8_t unused);

}  // namespace gfx950::exec
