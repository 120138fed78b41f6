// Matrix fused multiply-add: every dense MFMA of gfx950. mfma.md holds the lane layouts and the arithmetic.
//
// All 64 lanes take part whatever EXEC holds. Registers are lane-contiguous: operand[r][lane] is register r of the
// operand.
#pragma once

#include <cstdint>
#include <string_view>

namespace gfx950::exec {

enum class MatrixFormat : uint8_t { f64, f32, f16, bf16, i8, fp8, bf8, fp6, bf6, fp4 };
enum class MatrixAccumulator : uint8_t { f64, f32, i32 };

struct MfmaOp;
struct MfmaOperands {
  const uint32_t (*a)[64];
  const uint32_t (*b)[64];
  const uint32_t (*c)[64];
  uint64_t c_const;
  uint32_t (*d)[64];
  const uint32_t* scale_a;
  unsigned scale_a_byte;
  const uint32_t* scale_b;
  unsigned scale_b_byte;
};

struct MfmaOp {
  uint16_t m = 0, n = 0, k = 0, blocks = 0;  // blocks: independent products in one instruction
  MatrixFormat a = MatrixFormat::f32, b = MatrixFormat::f32;
  MatrixAccumulator cd = MatrixAccumulator::f32;
  bool f8f6f4 = false;  // formats chosen by cbsz and blgp, block scales possible
  bool scaled = false;  // the v_mfma_scale_ form: scale_a and scale_b are read
  uint8_t cbsz = 0, abid = 0, blgp = 0;
  uint8_t a_regs = 0, b_regs = 0, cd_regs = 0;                   // 32-bit registers per lane
  uint8_t passes = 0;                                            // of 4 clocks each
  void (*kernel)(const MfmaOp&, const MfmaOperands&) = nullptr;  // set by mfma_describe()
};

// Fills `out` for a mnemonic as LLVM's disassembler prints it (no _e64 suffix). False: not a dense MFMA of gfx950, or a
// combination of modifiers that the ISA leaves undefined; `out` is then unspecified.
bool mfma_describe(std::string_view mnemonic, unsigned cbsz, unsigned abid, unsigned blgp, MfmaOp& out);

// D = A * B + C. `c` is nullptr when src2 is an inline constant, whose bits are then c_const (64 bits wide for f64,
// else the low 32 for every element). `d` may be or overlap any of the sources: all are read as they were before the
// call. scale_a and scale_b hold one dword per lane, of which byte scale_a_byte and scale_b_byte (0..3) count; they are
// read only when op.scaled, otherwise they may be nullptr.
void mfma_execute(const MfmaOp& op, const uint32_t (*a)[64], const uint32_t (*b)[64], const uint32_t (*c)[64],
                  uint64_t c_const, uint32_t (*d)[64], const uint32_t* scale_a, unsigned scale_a_byte,
                  const uint32_t* scale_b, unsigned scale_b_byte);

}  // namespace gfx950::exec
