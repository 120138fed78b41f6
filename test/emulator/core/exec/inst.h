// A decoded instruction: everything its handler needs, resolved once per kernel.
#pragma once

#include <cstdint>

namespace gfx950::exec {

struct Wave;
struct Inst;
using Handler = void (*)(Wave&, const Inst&);
// Computes all 64 lanes. Operands are lane-contiguous rows; a 64-bit operand is two consecutive rows, low half first.
// Lane l of the result depends on lane l of the sources alone, so the destination may overlap any source.
using Lanes = void (*)(uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t* c);

// What an instruction is counted as in LaunchCounts and charged as by the timing model.
enum class Klass : uint8_t { salu, valu, mfma, lds, vmem, smem, branch, other };
constexpr int kKlasses = 8;

// How an instruction reads and writes the bits of a register; also decides what an inline constant means.
enum class Ty : uint8_t {
  none,
  b16,
  i16,
  u16,
  f16,
  bf16,
  b32,
  i32,
  u32,
  f32,
  b64,
  i64,
  u64,
  f64,
  mask,
  pk16,
  pkf16,
  pkf32,
  b96,
  b128
};

constexpr int words_of(Ty type) {
  switch (type) {
    case Ty::none:
      return 0;
    case Ty::b64:
    case Ty::i64:
    case Ty::u64:
    case Ty::f64:
    case Ty::pkf32:
    case Ty::mask:
      return 2;
    case Ty::b96:
      return 3;
    case Ty::b128:
      return 4;
    default:
      return 1;
  }
}
constexpr bool is_16bit(Ty type) {
  return type == Ty::b16 || type == Ty::i16 || type == Ty::u16 || type == Ty::f16 || type == Ty::bf16;
}
constexpr bool is_float(Ty type) {
  return type == Ty::f16 || type == Ty::f32 || type == Ty::f64 || type == Ty::pkf16 || type == Ty::pkf32;
}

struct Operand {
  enum class Kind : uint8_t { none, vector, scalar, constant, scc, vccz, execz };
  Kind kind = Kind::none;
  Ty type = Ty::none;
  uint16_t reg = 0;  // vector: row (acc registers from 256); scalar: hardware number (vcc 106, m0 124, exec 126)
  bool neg = false, abs = false, sext = false;
  uint8_t sel = 6;     // SDWA selector (0-3 byte, 4-5 word, 6 dword)
  uint64_t value = 0;  // constant: its bits, extended to 64
};

constexpr uint16_t kVcc = 106, kM0 = 124, kExec = 126;
constexpr uint16_t kAccBase = 256;

struct Inst {
  Handler fn = nullptr;
  Lanes lanes = nullptr;
  Klass klass = Klass::other;
  uint8_t cost = 1;  // issue cycles (of 4 clocks for vector instructions); MFMA: passes
  uint8_t nsrc = 0;
  uint8_t words = 0;  // memory: dwords per lane; else free
  uint16_t dst = 0;   // row or scalar register
  uint16_t dst2 = 0;  // second result (carry, compare mask)
  uint8_t dst_words = 1;
  uint8_t flags = 0;            // family's own
  uint8_t clamp = 0, omod = 0;  // omod: 0, 1: *2, 2: *4, 3: /2
  uint8_t op_sel = 0, op_sel_hi = 0, neg_lo = 0, neg_hi = 0;
  uint8_t dst_sel = 6, dst_unused = 0;  // SDWA
  int32_t offset = 0;                   // memory offset; branch: target index; s_nop and the like: immediate
  int32_t offset2 = 0;
  const void* dpp = nullptr;    // DppMap of a DPP instruction
  const void* extra = nullptr;  // family's own, lives as long as the program
  Operand src[4];
  const uint32_t* rows[4] = {};  // constant vector operands, broadcast to 64 lanes (128 words for 64-bit types)
};

}  // namespace gfx950::exec
