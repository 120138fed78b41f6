// C entry points of the number formats and the MFMA, for the tests: what they check, without a code object around it.
#include <chrono>
#include <cstdint>

#include "../exec/mfma.h"

#define GFX950_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using gfx950::exec::MfmaOp;
using Rows = const uint32_t (*)[64];

}  // namespace

// Eleven numbers: m, n, k, blocks, a, b, accumulator, a_regs, b_regs, cd_regs, passes. 0: unknown mnemonic or modifiers.
GFX950_EXPORT int gfx950_mfma_describe(const char* mnemonic, unsigned cbsz, unsigned abid, unsigned blgp, int32_t* out) {
  MfmaOp op;
  if (!gfx950::exec::mfma_describe(mnemonic, cbsz, abid, blgp, op)) return 0;
  const int32_t values[] = {op.m, op.n, op.k, op.blocks, static_cast<int32_t>(op.a), static_cast<int32_t>(op.b),
                            static_cast<int32_t>(op.cd), op.a_regs, op.b_regs, op.cd_regs, op.passes};
  for (int i = 0; i < 11; ++i) out[i] = values[i];
  return 1;
}

// Runs it `repeat` times; returns nanoseconds per run, or -1 for an unknown mnemonic or modifiers.
GFX950_EXPORT double gfx950_mfma_execute(const char* mnemonic, unsigned cbsz, unsigned abid, unsigned blgp, const uint32_t* a,
                                         const uint32_t* b, const uint32_t* c, uint64_t c_const, uint32_t* d,
                                         const uint32_t* scale_a, unsigned scale_a_byte, const uint32_t* scale_b,
                                         unsigned scale_b_byte, unsigned repeat) {
  MfmaOp op;
  if (!gfx950::exec::mfma_describe(mnemonic, cbsz, abid, blgp, op)) return -1;
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < repeat; ++i)
    gfx950::exec::mfma_execute(op, reinterpret_cast<Rows>(a), reinterpret_cast<Rows>(b), reinterpret_cast<Rows>(c), c_const,
                               reinterpret_cast<uint32_t(*)[64]>(d), scale_a, scale_a_byte, scale_b, scale_b_byte);
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / repeat;
}
