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
    case kRowShl:
      return in_row + amount < 16 ? lane + amount : -1;
    case kRowShr:
      return in_row - amount >= 0 ? lane - amount : -1;
    case kRowRor:
      return row | ((in_row - amount) & 15);
    case kRowNewBcast:
      return row | amount;
    default:
      break;
  }
  switch (control) {
    case kWaveShl:
      return lane < 63 ? lane + 1 : -1;
    case kWaveRol:
      return (lane + 1) & 63;
    case kWaveShr:
      return lane - 1;
    case kWaveRor:
      return (lane - 1) & 63;
    case kRowMirror:
      return row | (15 - in_row);
    case kRowHalfMirror:
      return (lane & ~7) | (7 - (lane & 7));
    case kRowBcast15:
      return row > 0 ? row - 1 : -1;  // lane 15 of the row before
    case kRowBcast31:
      return lane >= 32 ? 31 : -1;
    default:
      return -1;
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
    case kRowRor:
      return amount != 0;
    case kRowNewBcast:
      return true;
    default:
      break;
  }
  return control == kWaveShl || control == kWaveRol || control == kWaveShr || control == kWaveRor ||
         (control >= kRowMirror && control <= kRowBcast31);
}

DppMap dpp_map(uint32_t dpp) {
  const uint32_t control = dpp >> 8 & 0x1ff;
  const uint32_t bank_mask = dpp >> 24 & 15, row_mask = dpp >> 28 & 15;
  DppMap map;
  map.bound_ctrl = (dpp >> 19 & 1) != 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int from = source_lane(control, lane);
    map.from[lane] = from < 0 ? 0 : from;
    if (from >= 0) map.has_source |= uint64_t{1} << lane;
    const bool selected = (row_mask >> (lane / 16) & 1) != 0 && (bank_mask >> (lane / 4 % 4) & 1) != 0;
    if (selected) map.selected |= uint64_t{1} << lane;
  }
  return map;
}

uint64_t dpp_move(const Wave& w, const DppMap& map, const uint32_t* row, uint32_t* out, int words) {
  uint64_t valid = map.has_source;
  if (!w.exec_full) {
    const uint64_t exec = w.exec();
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((exec >> map.from[lane] & 1) == 0) valid &= ~(uint64_t{1} << lane);  // a lane that is off is no source
    }
  }
  alignas(64) uint32_t keep[kLanes];
  if (valid != ~uint64_t{0}) Wave::expand_mask(valid, keep);
  for (int k = 0; k < words; ++k, row += kLanes, out += kLanes) {
    for (int i = 0; i < kLanes; i += 8) {
      const __m256i index = _mm256_load_si256(reinterpret_cast<const __m256i*>(map.from + i));
      __m256i x = _mm256_i32gather_epi32(reinterpret_cast<const int*>(row), index, 4);
      if (valid != ~uint64_t{0}) x = _mm256_and_si256(x, _mm256_load_si256(reinterpret_cast<const __m256i*>(keep + i)));
      _mm256_store_si256(reinterpret_cast<__m256i*>(out + i), x);
    }
  }
  return map.selected & (map.bound_ctrl ? ~uint64_t{0} : valid);
}

}  // namespace gfx950::exec
