#include "lds_banks.h"

#include <algorithm>

namespace gfx950::timing {
namespace {

constexpr unsigned kBanks = 64;

// Lanes that a b128 read serves together, measured on hardware (a public measurement; see README.md).
constexpr uint64_t kFirst = 0x0ff0f00fULL;   // 0-3, 12-15, 20-27
constexpr uint64_t kSecond = 0xf00f0ff0ULL;  // 4-11, 16-19, 28-31

struct Phases {
  unsigned count = 0;
  uint64_t lanes[8] = {};
};

Phases phases_of(unsigned bytes, bool write, bool special) {
  Phases p;
  auto consecutive = [&](unsigned width) {
    for (unsigned first = 0; first < 64; first += width) {
      p.lanes[p.count++] = (width == 64 ? ~uint64_t{0} : ((uint64_t{1} << width) - 1)) << first;
    }
  };
  if (bytes <= 4) {
    consecutive(32);
  } else if (bytes == 8) {
    consecutive(write ? 16 : 32);
  } else if (write) {
    consecutive(8);
  } else if (special) {
    for (unsigned half = 0; half < 64; half += 32) {
      p.lanes[p.count++] = kFirst << half;
      p.lanes[p.count++] = kSecond << half;
    }
  } else {
    consecutive(16);
  }
  return p;
}

// The most different dwords that one bank has to serve. Lanes that read the same dword share it.
unsigned degree(const uint32_t* at, uint64_t lanes, unsigned words) {
  uint32_t dwords[64 * 4];
  unsigned count = 0;
  while (lanes != 0) {
    const int lane = __builtin_ctzll(lanes);
    lanes &= lanes - 1;
    for (unsigned k = 0; k < words; ++k) dwords[count++] = at[lane] / 4 + k;
  }
  std::sort(dwords, dwords + count);
  const unsigned different = static_cast<unsigned>(std::unique(dwords, dwords + count) - dwords);
  uint8_t load[kBanks] = {};
  unsigned most = 0;
  for (unsigned k = 0; k < different; ++k) most = std::max<unsigned>(most, ++load[dwords[k] % kBanks]);
  return most;
}

}  // namespace

LdsCost LdsBanks::compute(const uint32_t* at, uint64_t on, unsigned bytes, bool write) const {
  const Phases phases = phases_of(bytes, write, params_.lds_special_phases != 0);
  const unsigned words = std::max(1u, bytes / 4);
  LdsCost cost;
  for (unsigned k = 0; k < phases.count; ++k) {
    const uint64_t lanes = phases.lanes[k];
    const float full = static_cast<float>(__builtin_popcountll(lanes) * 4 * words / params_.lds_bytes_per_clk);
    const float clocks = std::max(1.0f, full);
    const unsigned conflict = params_.lds_conflicts != 0 ? degree(at, lanes & on, words) : 1;
    cost.clocks += clocks * static_cast<float>(std::max(1u, conflict));
    cost.conflicts += clocks * static_cast<float>(conflict > 1 ? conflict - 1 : 0);
  }
  return cost;
}

LdsCost LdsBanks::cost(const uint32_t* at, uint64_t on, unsigned bytes, bool write) {
  if (on == 0) return {1, 0};
  // Shifting all lanes by whole rows of banks changes nothing.
  const uint32_t base = at[__builtin_ctzll(on)] & ~uint32_t{4 * kBanks - 1};
  uint64_t hash = on * 0x9E3779B97F4A7C15u ^ (bytes * 2 + (write ? 1 : 0));
  for (int lane = 0; lane < 64; ++lane) {
    const uint64_t x = (on >> lane & 1) != 0 ? at[lane] - base : 0;
    hash = (hash ^ x) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  }
  const auto found = known_.find(hash);
  if (found != known_.end()) return found->second;
  return known_[hash] = compute(at, on, bytes, write);
}

}  // namespace gfx950::timing
