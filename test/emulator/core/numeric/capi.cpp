// C entry points of the number formats and the MFMA, for the tests: what they check, without a code object around it.
#include <chrono>
#include <cstdint>

#include "../exec/mfma.h"
#include "formats.h"
#include "lanes.h"

#define GFX950_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using gfx950::exec::MfmaOp;
using Rows = const uint32_t (*)[64];

}  // namespace

// Eleven numbers: m, n, k, blocks, a, b, accumulator, a_regs, b_regs, cd_regs, passes. 0: unknown mnemonic or
// modifiers.
GFX950_EXPORT int gfx950_mfma_describe(const char* mnemonic, unsigned cbsz, unsigned abid, unsigned blgp,
                                       int32_t* out) {
  MfmaOp op;
  if (!gfx950::exec::mfma_describe(mnemonic, cbsz, abid, blgp, op)) return 0;
  const int32_t values[] = {op.m,
                            op.n,
                            op.k,
                            op.blocks,
                            static_cast<int32_t>(op.a),
                            static_cast<int32_t>(op.b),
                            static_cast<int32_t>(op.cd),
                            op.a_regs,
                            op.b_regs,
                            op.cd_regs,
                            op.passes};
  for (int i = 0; i < 11; ++i) out[i] = values[i];
  return 1;
}

// Runs it `repeat` times; returns nanoseconds per run, or -1 for an unknown mnemonic or modifiers.
GFX950_EXPORT double gfx950_mfma_execute(const char* mnemonic, unsigned cbsz, unsigned abid, unsigned blgp,
                                         const uint32_t* a, const uint32_t* b, const uint32_t* c, uint64_t c_const,
                                         uint32_t* d, const uint32_t* scale_a, unsigned scale_a_byte,
                                         const uint32_t* scale_b, unsigned scale_b_byte, unsigned repeat) {
  MfmaOp op;
  if (!gfx950::exec::mfma_describe(mnemonic, cbsz, abid, blgp, op)) return -1;
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < repeat; ++i)
    gfx950::exec::mfma_execute(op, reinterpret_cast<Rows>(a), reinterpret_cast<Rows>(b), reinterpret_cast<Rows>(c),
                               c_const, reinterpret_cast<uint32_t (*)[64]>(d), scale_a, scale_a_byte, scale_b,
                               scale_b_byte);
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / repeat;
}

namespace {

const gfx950::numeric::Format* format_by_number(int number) {
  using namespace gfx950::numeric;
  static constexpr Format formats[] = {f16, bf16, fp8, bf8, fp6, bf6, fp4};
  return number >= 0 && number < 7 ? &formats[number] : nullptr;
}

}  // namespace

// format: f16, bf16, fp8, bf8, fp6, bf6, fp4 from 0; rounding and overflow as the enumerations of formats.h. 0: bad
// format.
GFX950_EXPORT int gfx950_from_f32(int format, int rounding, int overflow, const float* in, const uint32_t* random,
                                  uint32_t* out, uint64_t count) {
  const auto* f = format_by_number(format);
  if (!f) return 0;
  for (uint64_t i = 0; i < count; ++i)
    out[i] = gfx950::numeric::from_f32(*f, in[i], static_cast<gfx950::numeric::Rounding>(rounding),
                                       static_cast<gfx950::numeric::Overflow>(overflow), random ? random[i] : 0);
  return 1;
}

GFX950_EXPORT int gfx950_to_f32(int format, const uint32_t* in, float* out, uint64_t count) {
  const auto* f = format_by_number(format);
  if (!f) return 0;
  for (uint64_t i = 0; i < count; ++i) out[i] = gfx950::numeric::to_f32(*f, in[i]);
  return 1;
}

GFX950_EXPORT void gfx950_e8m0_to_f32(const uint32_t* in, float* out, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) out[i] = gfx950::numeric::e8m0_to_f32(in[i]);
}

// Registers of 64 lanes; `count` registers. kind: 0 bf16, 1 f16 nearest, 2 f16 toward zero.
GFX950_EXPORT void gfx950_pack_lanes(int kind, const uint32_t* low, const uint32_t* high, uint32_t* out,
                                     uint64_t count) {
  for (uint64_t r = 0; r < count; ++r, low += 64, high += 64, out += 64) {
    if (kind == 0) gfx950::numeric::pack_bf16(low, high, out);
    if (kind == 1) gfx950::numeric::pack_f16<_MM_FROUND_TO_NEAREST_INT>(low, high, out);
    if (kind == 2) gfx950::numeric::pack_f16<_MM_FROUND_TO_ZERO>(low, high, out);
  }
}

GFX950_EXPORT void gfx950_unpack_lanes(int kind, const uint32_t* in, unsigned shift, uint32_t* out, uint64_t count) {
  for (uint64_t r = 0; r < count; ++r, in += 64, out += 64) {
    if (kind == 0) gfx950::numeric::unpack_bf16(in, shift, out);
    if (kind == 1) gfx950::numeric::unpack_f16(in, shift, out);
  }
}
