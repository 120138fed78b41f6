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
  uint8_t bytes = 0;        // LDS: of one access of one lane
  uint8_t accesses = 1;     // LDS: 2 for the forms with two offsets
  bool high_half = false;   // LDS: stores bits 16 and up of its register
  uint8_t wait_states = 1;  // that the instruction itself provides
  bool writes_m0 = false;   // by the scalar unit
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
