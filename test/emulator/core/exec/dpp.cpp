#include "dpp.h"

#include "wave.h"

namespace gfx950::exec {
namespace {

enum : uint32_t {
  kQuadPermLast = 0x0ff,
  kRowShl = 0x100,
  kRowShr = 0x110,
  kRowRor = 0x120,
  kWaveShl = 0x130,
  kWaveRol = 0x134,
  kWaveShr = 0x138,
  kWaveRor = 0x13c,
  kRowMirror = 0x140,
  kRowHalfMirror = 0x141,
  kRowBcast15 = 0x142,
  kRowBcast31 = 0x143,
  kRowNewBcast = 0x150,  // gfx90a and later
};

// The lane that `lane` reads, or -1.
int source_lane(uint32_t control, int lane) {
  const int row = lane & ~15, in_row = lane & 15;
  const int amount = static_cast<int>(control & 15);
  if (control <= kQuadPermLast) return (lane & ~3) | static_cast<int>(control >> (2 * (lane & 3)) & 3);
  switch (control & 0x1f0) {
    case kRowShl: return in_row + amount < 16 ? lane + amount : -1;
    case kRowShr: return in_row - amount >= 0 ? lane - amount : -1;
    case kRowRor: return row | ((in_row - amount) & 15);
    case kRowNewBcast: return row | amount;
    default: break;
  }
  switch (control) {
    case kWaveShl: return lane < 63 ? lane + 1 : -1;
    case kWaveRol: return (lane + 1) & 63;
    case kWaveShr: return lane - 1;
    case kWaveRor: return (lane - 1) & 63;
    case kRowMirror: return row | (15 - in_row);
    case kRowHalfMirror: return (lane & ~7) | (7 - (lane & 7));
    case kRowBcast15: return row > 0 ? row - 1 : -1;   // lane 15 of the row before
    case kRowBcast31: return lane >= 32 ? 31 : -1;
    default: return -1;
  }
}

}  // namespace

bool dpp_supported(uint32_t dpp) {
  const uint32_t control = dpp >> 8 & 0x1ff;
  if ((dpp >> 17 & 1) != 0 || (dpp >> 18 & 1) != 0) return false;  // reserved on gfx9
  if (control <= kQuadPermLast) return true;
  const uint32_t amount = control & 15;
  switch (control & 0x1f0) {
    case kRowShl:
    case kRowShr:
    case kRowRor: return amount != 0;
    case kRowNewBcast: return true;
    default: break;
  }
  return control == kWaveShl || control == kWaveRol || control == kWaveShr || control == kWaveRor ||
         (control >= kRowMirror && control <= kRowBcast31);
}

uint64_t dpp_move(const Wave& w, uint32_t dpp, const uint32_t* row, uint32_t* out, int words) {
  const uint32_t control = dpp >> 8 & 0x1ff;
  const bool bound_ctrl = (dpp >> 19 & 1) != 0;
  const uint32_t bank_mask = dpp >> 24 & 15, row_mask = dpp >> 28 & 15;
  const uint64_t exec = w.exec();
  uint64_t enabled = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    int from = source_lane(control, lane);
    if (from >= 0 && (exec >> from & 1) == 0) from = -1;  // a lane that is off is no source
    for (int k = 0; k < words; ++k) out[k * kLanes + lane] = from < 0 ? 0 : row[k * kLanes + from];
    const bool selected = (row_mask >> (lane / 16) & 1) != 0 && (bank_mask >> (lane / 4 % 4) & 1) != 0;
    if (selected && (from >= 0 || bound_ctrl)) enabled |= uint64_t{1} << lane;
  }
  return enabled;
}

}  // namespace gfx950::exec
