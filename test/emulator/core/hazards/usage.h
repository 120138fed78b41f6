// What one instruction does to registers, counters and LDS, as far as the checker asks: worked out once per program.
#pragma once

#include <cstdint>

#include "../decode/parsed.h"
#include "../exec/inst.h"

namespace gfx950::hazards {

// One numbering for all registers: vector rows (accumulation from 256), then scalars by hardware number.
constexpr uint16_t kScalarBase = 512;
constexpr int kRegisters = kScalarBase + 128;

struct Registers {
  uint16_t first = 0, count = 0;
};

enum class Memory : uint8_t {
  none,
  load,    // to registers, in order
  store,   // and atomics that return nothing
  atomic,  // with a result
  dma,     // to LDS
  lds_read,
  lds_write,
  lds_atomic,
  lds_exchange,  // lanes exchange values through the LDS hardware; no LDS is touched
  scalar_load,
};

enum class Unit : uint8_t { other, salu, valu, matrix, memory };

struct Usage {
  static constexpr int kReads = 7, kWrites = 2;
  Registers reads[kReads], writes[kWrites];
  uint8_t nreads = 0, nwrites = 0;
  Memory memory = Memory::none;
  Unit unit = Unit::other;
  bool flat = false;   // counted by vmcnt and lgkmcnt, out of order in both
  bool waits = false;  // s_waitcnt
  uint8_t wait_vm = 63, wait_lgkm = 15;
  uint8_t bytes = 0;       // LDS: of one access of one lane
  uint8_t accesses = 1;    // LDS: 2 for the forms with two offsets
  bool high_half = false;  // LDS: stores bits 16 and up of its register
  // What the wait states ask for.
  enum Trait : uint16_t {
    writes_m0 = 1 << 0,  // by the scalar unit
    reads_m0 = 1 << 1,
    writes_exec = 1 << 2,  // by the vector unit
    lane_access = 1 << 3,  // v_readlane, v_readfirstlane, v_writelane
    reads_lane = 1 << 4,   // the first two
    swaps_lanes = 1 << 5,  // v_permlane16_swap, v_permlane32_swap
    transcendental = 1 << 6,
    part_of_result = 1 << 7,  // writes a byte or a half of its register
    dot = 1 << 8,
    fma_f64 = 1 << 9,
    xdl = 1 << 10,  // matrix: of the unit for types of 8 and 16 bits and less
    matrix_f64 = 1 << 11,
  };
  uint16_t traits = 0;
  bool is(Trait trait) const { return (traits & trait) != 0; }
  uint8_t wait_states = 1;                   // that the instruction itself provides
  uint8_t passes = 0;                        // matrix
  int8_t c_read = -1;                        // matrix: which of `reads` is C
  uint32_t name = 0;                         // a hash of the mnemonic
  uint16_t sets_mode = 0, touches_mode = 0;  // s_setreg; that and s_getreg: the hardware register, plus 1
  Registers store_data;                      // that may be read for a while after the store was issued
  // Matrix instructions: wait states until the result can be read by vector and by memory instructions, as A or B and
  // as part of C by matrix instructions, and written over.
  struct Latency {
    uint8_t vector = 0, memory = 0, ab = 0, c = 0, overwrite = 0;
    uint8_t same_c = 0;  // read as C, in the same registers
  } latency;
  // Scalars that must have been written by no vector instruction in so many states.
  Registers late_scalars[3];
  uint8_t nlate = 0, late_states = 0;
  bool dpp = false;
};

Usage usage_of(const decode::Parsed& parsed, const exec::Inst& inst);

}  // namespace gfx950::hazards
