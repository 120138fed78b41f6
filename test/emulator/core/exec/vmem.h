// What global, flat, scratch and buffer instructions share: checked addresses, then the move.
#pragma once

#include <cstdint>

#include "atomics.h"
#include "element.h"
#include "rows.h"
#include "wave.h"

namespace gfx950::exec {

struct LaneAddresses {
  alignas(64) int64_t at[kLanes];
  uint64_t on = 0;  // lanes that access memory
};

// What an access may do with the dword that a range ends inside. Compilers read it whole: a 16-bit atomic is a packed
// one on its aligned dword, a uniform 16-bit load a scalar dword. An aligned dword lies in one page, so it is there.
enum class LastDword : uint8_t { whole, exact };  // exact: stores

// Every lane that is on must lie, whole, in one registered range. Throws memory_fault otherwise.
inline void check_addresses(Wave& w, const Inst& in, const LaneAddresses& lanes, unsigned bytes, LastDword last) {
  if (w.probe != nullptr) w.probe->global(in, lanes.at, lanes.on, bytes);
  int64_t low = INT64_MAX, high = INT64_MIN;
  if (lanes.on == ~uint64_t{0}) {
    for (int i = 0; i < kLanes; ++i) {
      low = lanes.at[i] < low ? lanes.at[i] : low;
      high = lanes.at[i] > high ? lanes.at[i] : high;
    }
  } else {
    if (lanes.on == 0) return;
    for_each_lane(lanes.on, [&](int i) {
      low = lanes.at[i] < low ? lanes.at[i] : low;
      high = lanes.at[i] > high ? lanes.at[i] : high;
    });
  }
  if (in_window(w, static_cast<uintptr_t>(low), static_cast<uintptr_t>(high) + bytes - 1)) return;
  for_each_lane(lanes.on, [&](int i) {
    const uintptr_t at = static_cast<uintptr_t>(lanes.at[i]);
    if (in_window(w, at, at + bytes - 1)) return;
    if (last == LastDword::exact || !reaches_last_dword(w, at, bytes)) fail_address(w, in, i, at, bytes);
  });
}

inline uint8_t* pointer(int64_t address) { return reinterpret_cast<uint8_t*>(address); }

template <int Words>
void load_dwords(Wave& w, const Inst& in, const LaneAddresses& lanes) {
  if (w.address_only) return;
  if (lanes.on == ~uint64_t{0}) {
    gather_all<Words>(w.v[in.dst], [&](int i) { return pointer(lanes.at[i]); });
    w.counts.bytes_loaded += 4 * Words * kLanes;
    return;
  }
  for_each_lane(lanes.on, [&](int i) {
    uint32_t x[Words];
    std::memcpy(x, pointer(lanes.at[i]), sizeof x);
    for (int k = 0; k < Words; ++k) w.v[in.dst + k][i] = x[k];
  });
  w.counts.bytes_loaded += 4 * Words * static_cast<unsigned>(__builtin_popcountll(lanes.on));
}

template <int Words>
void store_dwords(Wave& w, const uint32_t* data, const LaneAddresses& lanes) {
  if (w.address_only) return;
  if (lanes.on == ~uint64_t{0}) {
    scatter_all<Words>(data, [&](int i) { return pointer(lanes.at[i]); });
    w.counts.bytes_stored += 4 * Words * kLanes;
    return;
  }
  for_each_lane(lanes.on, [&](int i) {
    uint32_t x[Words];
    for (int k = 0; k < Words; ++k) x[k] = data[k * kLanes + i];
    std::memcpy(pointer(lanes.at[i]), x, sizeof x);
  });
  w.counts.bytes_stored += 4 * Words * static_cast<unsigned>(__builtin_popcountll(lanes.on));
}

template <Element E>
void load_small(Wave& w, const Inst& in, const LaneAddresses& lanes) {
  if (w.address_only) return;
  uint32_t* d = w.v[in.dst];
  for_each_lane(lanes.on, [&](int i) {
    uint32_t raw = 0;
    std::memcpy(&raw, pointer(lanes.at[i]), bytes_of(E));
    d[i] = loaded(E, raw, d[i]);
  });
  w.counts.bytes_loaded += static_cast<unsigned>(bytes_of(E) * __builtin_popcountll(lanes.on));
}

template <Element E>
void store_small(Wave& w, const uint32_t* data, const LaneAddresses& lanes) {
  if (w.address_only) return;
  for_each_lane(lanes.on, [&](int i) {
    const uint32_t value = stored(E, data[i]);
    std::memcpy(pointer(lanes.at[i]), &value, bytes_of(E));
  });
  w.counts.bytes_stored += static_cast<unsigned>(bytes_of(E) * __builtin_popcountll(lanes.on));
}

// `data`: the operand's first row; the comparand of cmpswap follows the new value. `dst`: row of the old value, or -1.
template <class U, Atomic Op>
void atomic_lanes(Wave& w, const Inst& in, const uint32_t* data, int dst, const LaneAddresses& lanes) {
  if (w.address_only) return;
  auto read = [&](int k, int lane) {
    const uint32_t* row = data + k * static_cast<int>(sizeof(U) / 4) * kLanes;
    return sizeof(U) == 8 ? static_cast<U>(row[lane] | static_cast<uint64_t>(row[kLanes + lane]) << 32)
                          : static_cast<U>(row[lane]);
  };
  for_each_lane(lanes.on, [&](int i) {
    if (lanes.at[i] % static_cast<int64_t>(sizeof(U)) != 0) {
      fail_fault(w, in, "lane " + std::to_string(i) + ": atomic on a misaligned address");
    }
    const U compare = Op == Atomic::cmpswap ? read(1, i) : U{0};
    const U old = atomic_update<U>(pointer(lanes.at[i]), Op, read(0, i), compare);
    if (dst >= 0) {
      w.v[dst][i] = static_cast<uint32_t>(old);
      if (sizeof(U) == 8) w.v[dst + 1][i] = static_cast<uint32_t>(static_cast<uint64_t>(old) >> 32);
    }
  });
  w.counts.bytes_loaded += sizeof(U) * static_cast<unsigned>(__builtin_popcountll(lanes.on));
  w.counts.bytes_stored += sizeof(U) * static_cast<unsigned>(__builtin_popcountll(lanes.on));
}

inline void check_lds_dma(const Wave& w, const Inst& in, uint64_t end) {
  if (end <= w.lds_size) return;
  fail_fault(w, in,
             "LDS DMA writes up to byte " + std::to_string(end - 1) + " (M0 " + std::to_string(w.s[kM0]) +
                 "); the workgroup has " + std::to_string(w.lds_size));
}

// LDS DMA: `zero` lanes (outside the buffer) write zeros, the others what memory holds. M0 + offset + lane * size.
template <int Words>
void load_to_lds(Wave& w, const Inst& in, const LaneAddresses& lanes, uint64_t zero) {
  if (w.address_only) return;
  const uint64_t base = static_cast<uint64_t>(w.s[kM0]) + static_cast<uint32_t>(in.offset);
  const uint64_t touched = lanes.on | zero;
  if (touched == 0) return;
  const uint64_t last = base + (64 - static_cast<unsigned>(__builtin_clzll(touched))) * 4 * Words;
  check_lds_dma(w, in, last);
  uint8_t* lds = w.lds + base;
  if (lanes.on == ~uint64_t{0}) {
    for (int i = 0; i < kLanes; ++i) std::memcpy(lds + i * 4 * Words, pointer(lanes.at[i]), 4 * Words);
  } else {
    for_each_lane(lanes.on, [&](int i) { std::memcpy(lds + i * 4 * Words, pointer(lanes.at[i]), 4 * Words); });
    for_each_lane(zero, [&](int i) { std::memset(lds + i * 4 * Words, 0, 4 * Words); });
  }
  w.counts.bytes_loaded += 4 * Words * static_cast<unsigned>(__builtin_popcountll(lanes.on));
}

// The same for bytes and halves, each extended to a dword of LDS.
template <Element E>
void load_part_to_lds(Wave& w, const Inst& in, const LaneAddresses& lanes, uint64_t zero) {
  const uint64_t base = static_cast<uint64_t>(w.s[kM0]) + static_cast<uint32_t>(in.offset);
  const uint64_t touched = lanes.on | zero;
  if (touched == 0) return;
  check_lds_dma(w, in, base + (64 - static_cast<unsigned>(__builtin_clzll(touched))) * 4);
  uint8_t* lds = w.lds + base;
  for_each_lane(touched, [&](int i) {
    uint32_t raw = 0;
    if ((lanes.on >> i & 1) != 0) std::memcpy(&raw, pointer(lanes.at[i]), bytes_of(E));
    const uint32_t value = loaded(E, raw, 0);
    std::memcpy(lds + 4 * i, &value, 4);
  });
  w.counts.bytes_loaded += static_cast<unsigned>(bytes_of(E) * __builtin_popcountll(lanes.on));
}

}  // namespace gfx950::exec
