// Who wrote and who read each part of a workgroup's LDS last, and whether that is ordered before what follows.
#pragma once

#include <cstdint>
#include <vector>

#include "../exec/wave.h"
#include "scoreboard.h"

namespace gfx950::hazards {

// A stamp names one LDS access of one wave: its place in the worker's order, the wave, and the kind of access.
enum class Access : uint8_t { write, dma, atomic, read };
constexpr uint32_t kStampStep = 1 << 6;
inline uint32_t wave_of(uint32_t stamp) { return stamp >> 2 & 15; }
inline Access access_of(uint32_t stamp) { return static_cast<Access>(stamp & 3); }

struct Collision {
  enum class Kind : uint8_t { write_write, read_after_write, write_after_read, own_dma, own_read, uninitialised };
  Kind kind = Kind::uninitialised;
  uint32_t byte = 0;  // LDS address
  int lane = 0;
  uint32_t earlier = 0;  // stamp; 0 if uninitialised
};

// The lanes' places in LDS.
struct Places {
  uint64_t exec = 0;
  uint32_t bytes = 0;       // of each lane
  bool high_half = false;   // narrow stores: the value is in bits 16 and up
  bool contiguous = false;  // each lane's follow those of the lane before
  alignas(64) uint32_t at[exec::kLanes];
};

class LdsShadow {
 public:
  // `shift`: log2 of the bytes tracked together; no store of the program may write less, or at a smaller alignment.
  // `dma`: the program has LDS DMA.
  LdsShadow(uint32_t lds_size, unsigned shift, uint32_t waves, bool dma);

  void start();  // of another workgroup
  // At a barrier: what is complete by now is ordered before all that follows. `scoreboards`: one per wave.
  void barrier(const std::vector<Scoreboard>& scoreboards);
  uint32_t next_stamp(uint32_t wave, Access access);

  // Each looks for a collision, then notes the access. `board` is that of the wave. `rows`: the registers to be stored,
  // if known: storing what LDS holds already is no collision with other waves.
  bool read(const Places& places, uint32_t stamp, const Scoreboard& board, Collision& out);
  bool write(const Places& places, uint32_t stamp, const Scoreboard& board, const uint8_t* lds, const uint32_t* rows,
             Collision& out);

  bool tracks_uninitialised = false;
  uint64_t uninitialised_reads = 0;  // lanes' accesses
  uint32_t size() const { return size_; }

 private:
  static constexpr unsigned kBlockShift = 8;  // 256 bytes of LDS

  // The youngest stamp of each wave and kind, by a stamp's low bits, that is ordered before what follows.
  struct Limits {
    alignas(32) uint32_t of[kStampStep];
  };
  bool ordered(uint32_t stamp) const { return stamp <= limits_.of[stamp % kStampStep]; }
  void set_limits();
  // As seen by the wave itself: only its own LDS DMA can still surprise it.
  Limits limits_for(uint32_t stamp, uint32_t own_dma) const;
  bool any_unordered(uint32_t first, uint32_t count, const Limits& limits) const;
  bool read_part(uint32_t part, uint32_t stamp, const Scoreboard& board, Collision& out);
  bool clean(uint32_t first, uint32_t count, uint32_t stamp, const Scoreboard& board) const;
  bool write_part(uint32_t part, uint32_t stamp, const Scoreboard& board, bool same_value, Collision& out);
  void forget();
  void all_ordered();  // of what came before

  uint32_t size_;
  unsigned shift_;
  uint32_t waves_;
  uint32_t last_ = 0;            // stamp given last, without wave and kind
  uint32_t start_ = kStampStep;  // older stamps are of earlier workgroups
  uint32_t floor_ = 0;           // all writes up to here are ordered
  uint32_t read_floor_ = 0;      // all reads
  Limits limits_;
  std::vector<uint32_t> ordered_lds_, ordered_dma_;  // likewise, by wave
  std::vector<uint32_t> written_;                    // stamp of the last write, by part
  std::vector<std::vector<uint32_t>> read_;          // by wave: stamp of its last read
  std::vector<uint32_t> block_read_;                 // by block: stamp of the last read by any wave
};

}  // namespace gfx950::hazards
