#include "sdwa.h"

#include "wave.h"

namespace gfx950::exec {
namespace {

int shift_of(uint8_t sel) { return sel < 4 ? 8 * sel : sel == 5 ? 16 : 0; }
int width_of(uint8_t sel) { return sel < 4 ? 8 : sel < 6 ? 16 : 32; }

}  // namespace

void sdwa_select(uint32_t* row, uint8_t sel, bool sign_extend) {
  const int shift = shift_of(sel), unused = 32 - width_of(sel);
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t aligned = row[i] >> shift << unused;
    row[i] = sign_extend ? static_cast<uint32_t>(static_cast<int32_t>(aligned) >> unused) : aligned >> unused;
  }
}

void sdwa_merge(uint32_t* out, const uint32_t* old, uint8_t sel, uint8_t unused) {
  const int shift = shift_of(sel), width = width_of(sel);
  const uint32_t field = ((uint64_t{1} << width) - 1) << shift;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t placed = out[i] << shift & field;
    if (unused == 2) {
      out[i] = placed | (old[i] & ~field);
    } else if (unused == 1) {
      const int up = 32 - width - shift;
      out[i] = static_cast<uint32_t>(static_cast<int32_t>(placed << up) >> up);
    } else {
      out[i] = placed;
    }
  }
}

}  // namespace gfx950::exec
