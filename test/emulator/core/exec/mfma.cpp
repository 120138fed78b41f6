#include "mfma.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "mfma_tiles.h"
#include "mfma_unpack.h"

namespace gfx950::exec {
namespace {

using namespace mfma;  // NOLINT: the two headers are this file's own parts
using F = MatrixFormat;
using Kernel = void (*)(const MfmaOp&, const MfmaOperands&);

Addend addend_f32(const MfmaOperands& x) {
  float constant;
  const uint32_t bits = static_cast<uint32_t>(x.c_const);
  std::memcpy(&constant, &bits, sizeof constant);
  return {x.c ? reinterpret_cast<const float*>(x.c) : nullptr, constant};
}

AddendInt addend_i32(const MfmaOperands& x) {
  return {x.c ? reinterpret_cast<const int32_t*>(x.c) : nullptr, static_cast<int32_t>(x.c_const)};
}

// cbsz = log2(blocks): block `abid` of A serves all blocks.
template <class Element>
void broadcast_block(const MfmaOp& op, Element* panel, unsigned rows) {
  const unsigned width = op.m * op.blocks;
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned block = 0; block < op.blocks; ++block)
      if (block != op.abid) std::copy_n(panel + row * width + op.abid * op.m, op.m, panel + row * width + block * op.m);
}

// blgp: which lane of B serves each lane.
unsigned blgp_lane(unsigned blgp, unsigned lane) {
  switch (blgp) {
    case 1:
      return lane % 32;  // the first 32 lanes serve all
    case 2:
      return lane % 32 + 32;  // the last 32
    case 3:
      return (lane + 16) % 64;  // rotated by 16
    case 4:
    case 5:
    case 6:
    case 7:
      return lane % 16 + (blgp - 4) * 16;  // one group of 16 serves all
    default:
      return lane;
  }
}

template <unsigned M, unsigned N, unsigned K, unsigned B, F FA, F FB>
void dense_f32(const MfmaOp& op, const MfmaOperands& x) {
  constexpr KOrder a_order{K * M * B / 64, 64 / (M * B), false}, b_order{K * N * B / 64, 64 / (N * B), false};
  alignas(32) float a[K * M * B], b[K * N * B];
  unpack_f32<FA, log2_surplus(FA) + log2_surplus(FB)>(x.a, M * B, a_order, a);
  unpack_f32<FB>(x.b, N * B, b_order, b);
  if (op.cbsz) broadcast_block(op, a, K);
  const Addend c = addend_f32(x);
  float* d = reinterpret_cast<float*>(x.d);
  if constexpr (M == 4) {
    for (unsigned lane = 0; lane < 64; lane += 8) {
      __m256 acc[4];
      for (unsigned i = 0; i < 4; ++i) acc[i] = c.load(64 * i + lane);
      for (unsigned k = 0; k < K; ++k) {
        const __m256 ak = _mm256_load_ps(a + k * 64 + lane), bk = _mm256_load_ps(b + k * 64 + lane);
        acc[0] = _mm256_fmadd_ps(_mm256_permute_ps(ak, 0x00), bk, acc[0]);
        acc[1] = _mm256_fmadd_ps(_mm256_permute_ps(ak, 0x55), bk, acc[1]);
        acc[2] = _mm256_fmadd_ps(_mm256_permute_ps(ak, 0xaa), bk, acc[2]);
        acc[3] = _mm256_fmadd_ps(_mm256_permute_ps(ak, 0xff), bk, acc[3]);
      }
      for (unsigned i = 0; i < 4; ++i) _mm256_storeu_ps(d + 64 * i + lane, acc[i]);
    }
  } else {
    for (unsigned block = 0; block < B; ++block)
      tile_f32<M, N>(a + block * M, M * B, b + block * N, N * B, K, block, c, d);
  }
}

template <unsigned M, unsigned N, unsigned K, unsigned B>
void dense_i8(const MfmaOp& op, const MfmaOperands& x) {
  constexpr KOrder a_order{K * M * B / 64, 64 / (M * B), false}, b_order{K * N * B / 64, 64 / (N * B), false};
  alignas(32) int32_t a[K / 2 * M * B], b[K / 2 * N * B];
  unpack_i8(x.a, M * B, a_order, a);
  unpack_i8(x.b, N * B, b_order, b);
  if (op.cbsz) broadcast_block(op, a, K / 2);
  const AddendInt c = addend_i32(x);
  int32_t* d = reinterpret_cast<int32_t*>(x.d);
  if constexpr (M == 4) {
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned lane = 0; lane < 64; lane += 8) {
        __m256i acc = c.load(64 * i + lane);
        for (unsigned p = 0; p < K / 2; ++p) {
          const __m256i selector =
              _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4), _mm256_set1_epi32(static_cast<int>(i)));
          const __m256i pair = _mm256_permutevar8x32_epi32(
              _mm256_load_si256(reinterpret_cast<const __m256i*>(a + p * 64 + lane)), selector);
          acc = _mm256_add_epi32(
              acc, _mm256_madd_epi16(pair, _mm256_load_si256(reinterpret_cast<const __m256i*>(b + p * 64 + lane))));
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + 64 * i + lane), acc);
      }
  } else {
    for (unsigned block = 0; block < B; ++block)
      tile_i32<M, N>(a + block * M, M * B, b + block * N, N * B, K / 2, block, c, d);
  }
}

double read_f64(Registers regs, unsigned lane) {
  const uint64_t bits = regs[0][lane] | static_cast<uint64_t>(regs[1][lane]) << 32;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// blgp holds the negations of A, B and C.
template <unsigned M, unsigned N, unsigned K, unsigned B>
void dense_f64(const MfmaOp& op, const MfmaOperands& x) {
  double a[64], b[64];  // [k][block][row or column], which is the lane
  for (unsigned lane = 0; lane < 64; ++lane) {
    a[lane] = op.blgp & 1 ? -read_f64(x.a, lane) : read_f64(x.a, lane);
    b[lane] = op.blgp & 2 ? -read_f64(x.b, lane) : read_f64(x.b, lane);
  }
  uint32_t* d = reinterpret_cast<uint32_t*>(x.d);
  const uint32_t* c = reinterpret_cast<const uint32_t*>(x.c);
  for (unsigned block = 0; block < B; ++block)
    for (unsigned i = 0; i < M; ++i) {
      const unsigned offset = row_offset_f64(M, N, block, i);
      for (unsigned j = 0; j < N; ++j) {
        uint64_t bits = c ? c[offset + j] | static_cast<uint64_t>(c[offset + 64 + j]) << 32 : x.c_const;
        double acc;
        std::memcpy(&acc, &bits, sizeof acc);
        if (op.blgp & 4) acc = -acc;
        for (unsigned k = 0; k < K; ++k) acc = std::fma(a[(k * B + block) * M + i], b[(k * B + block) * N + j], acc);
        std::memcpy(&bits, &acc, sizeof bits);
        d[offset + j] = static_cast<uint32_t>(bits);
        d[offset + 64 + j] = static_cast<uint32_t>(bits >> 32);
      }
    }
}

// ---- f8f6f4
// -------------------------------------------------------------------------------------------------------------

constexpr bool is_8bit(F format) { return format == F::fp8 || format == F::bf8; }

template <unsigned W, unsigned K>
void unpack_any_f32(F format, Registers regs, float* panel) {
  constexpr unsigned per_lane = K * W / 64, groups = 64 / W;
  switch (format) {
    case F::fp8:
      return unpack_f32<F::fp8>(regs, W, {per_lane, groups, true}, panel);
    case F::bf8:
      return unpack_f32<F::bf8>(regs, W, {per_lane, groups, true}, panel);
    case F::fp6:
      return unpack_f32<F::fp6>(regs, W, {per_lane, groups, false}, panel);
    case F::bf6:
      return unpack_f32<F::bf6>(regs, W, {per_lane, groups, false}, panel);
    default:
      return unpack_f32<F::fp4>(regs, W, {per_lane, groups, false}, panel);
  }
}

// Scales of one operand as [k / 32][row]: lane kb * rows + row holds the scale of that row and block of 32.
struct ScalePanel {
  alignas(32) float value[64];
  alignas(32) int32_t exponent[64];
  bool extreme = false;  // holds a finite scale beyond 2^+-80, with which a sum might leave the range of f32
  void read(const uint32_t* scale, unsigned byte) {
    __m256i found = _mm256_setzero_si256();
    for (unsigned lane = 0; lane < 64; lane += 8) {
      const __m256i shifted = _mm256_srl_epi32(load8(scale + lane), _mm_cvtsi32_si128(static_cast<int>(8 * byte)));
      const __m256i code = _mm256_and_si256(shifted, _mm256_set1_epi32(255));
      const __m256i nan = _mm256_cmpeq_epi32(code, _mm256_set1_epi32(255));
      // 0 is 2^-127, a denormal; 255 gets the exponent of NaN from the shift and needs a fraction.
      __m256i bits = _mm256_max_epi32(_mm256_slli_epi32(code, 23), _mm256_set1_epi32(0x00400000));
      bits = _mm256_or_si256(bits, _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000)));
      const __m256i power = _mm256_sub_epi32(code, _mm256_set1_epi32(127));
      found = _mm256_or_si256(
          found, _mm256_andnot_si256(nan, _mm256_cmpgt_epi32(_mm256_abs_epi32(power), _mm256_set1_epi32(80))));
      _mm256_store_ps(value + lane, _mm256_castsi256_ps(bits));
      _mm256_store_si256(reinterpret_cast<__m256i*>(exponent + lane),
                         _mm256_blendv_epi8(power, _mm256_set1_epi32(INT32_MIN / 2), nan));
    }
    extreme = !_mm256_testz_si256(found, found);
  }
};

template <unsigned M, unsigned N, unsigned K>
void f8f6f4(const MfmaOp& op, const MfmaOperands& x) {
  ScalePanel scale_a, scale_b;
  BlockScales scales;
  Scaling scaling = Scaling::none;
  if (op.scaled) {
    scale_a.read(x.scale_a, x.scale_a_byte);
    scale_b.read(x.scale_b, x.scale_b_byte);
    scales = {scale_a.value, scale_b.value, scale_a.exponent, scale_b.exponent, M, N};
    scaling = scale_a.extreme ? Scaling::exponents : Scaling::factors;
  }
  const Addend c = addend_f32(x);
  float* d = reinterpret_cast<float*>(x.d);
  if (op.a == F::fp4 && op.b == F::fp4) {
    alignas(32) int32_t a[K / 4 * M], b[K / 4 * N];
    unpack_fp4_bytes(x.a, M, {K * M / 64, 64 / M, false}, SumFp4::offset, a);
    unpack_fp4_bytes(x.b, N, {K * N / 64, 64 / N, false}, 0, b);
    scales.unit = 0.25f;
    return tile_blocks<SumFp4, M, N, K>(a, b, scaling, scales, c, d);
  }
  alignas(32) float a[K * M], b[K * N];
  unpack_any_f32<M, K>(op.a, x.a, a);
  unpack_any_f32<N, K>(op.b, x.b, b);
  scales.unit = power_of_two(log2_surplus(op.a) + log2_surplus(op.b));
  tile_blocks<SumF32, M, N, K>(a, b, scaling, scales, c, d);
}

// ---- the instructions
// ---------------------------------------------------------------------------------------------------

struct Row {
  std::string_view name;
  uint16_t m, n, k, blocks;
  F a, b;
  MatrixAccumulator cd;
  uint8_t passes;  // f8f6f4: with an 8-bit operand
  Kernel kernel;
};

template <unsigned M, unsigned N, unsigned K, unsigned B, F FA, F FB = FA>
constexpr Row f32_row(std::string_view name, uint8_t passes) {
  return {name, M, N, K, B, FA, FB, MatrixAccumulator::f32, passes, dense_f32<M, N, K, B, FA, FB>};
}

template <unsigned M, unsigned N, unsigned K, unsigned B>
constexpr Row i32_row(std::string_view name, uint8_t passes) {
  return {name, M, N, K, B, F::i8, F::i8, MatrixAccumulator::i32, passes, dense_i8<M, N, K, B>};
}

template <unsigned M, unsigned N, unsigned K, unsigned B>
constexpr Row f64_row(std::string_view name, uint8_t passes) {
  return {name, M, N, K, B, F::f64, F::f64, MatrixAccumulator::f64, passes, dense_f64<M, N, K, B>};
}

template <unsigned M, unsigned N, unsigned K>
constexpr Row f8f6f4_row(std::string_view name, uint8_t passes) {
  return {name, M, N, K, 1, F::fp8, F::fp8, MatrixAccumulator::f32, passes, f8f6f4<M, N, K>};
}

// Passes: the cycles of the CDNA4 ISA document, table 28, over 4.
constexpr Row kRows[] = {
    f32_row<16, 16, 32, 1, F::f16>("v_mfma_f32_16x16x32_f16", 4),
    f32_row<16, 16, 32, 1, F::bf16>("v_mfma_f32_16x16x32_bf16", 4),
    f32_row<32, 32, 16, 1, F::f16>("v_mfma_f32_32x32x16_f16", 8),
    f32_row<32, 32, 16, 1, F::bf16>("v_mfma_f32_32x32x16_bf16", 8),
    f32_row<16, 16, 16, 1, F::f16>("v_mfma_f32_16x16x16_f16", 4),
    f32_row<16, 16, 16, 1, F::bf16>("v_mfma_f32_16x16x16_bf16", 4),
    f32_row<32, 32, 8, 1, F::f16>("v_mfma_f32_32x32x8_f16", 8),
    f32_row<32, 32, 8, 1, F::bf16>("v_mfma_f32_32x32x8_bf16", 8),
    f32_row<4, 4, 4, 16, F::f16>("v_mfma_f32_4x4x4_16b_f16", 2),
    f32_row<4, 4, 4, 16, F::bf16>("v_mfma_f32_4x4x4_16b_bf16", 2),
    f32_row<16, 16, 4, 4, F::f16>("v_mfma_f32_16x16x4_4b_f16", 8),
    f32_row<16, 16, 4, 4, F::bf16>("v_mfma_f32_16x16x4_4b_bf16", 8),
    f32_row<32, 32, 4, 2, F::f16>("v_mfma_f32_32x32x4_2b_f16", 16),
    f32_row<32, 32, 4, 2, F::bf16>("v_mfma_f32_32x32x4_2b_bf16", 16),
    f32_row<16, 16, 4, 1, F::f32>("v_mfma_f32_16x16x4_f32", 8),
    f32_row<32, 32, 2, 1, F::f32>("v_mfma_f32_32x32x2_f32", 16),
    f32_row<4, 4, 1, 16, F::f32>("v_mfma_f32_4x4x1_16b_f32", 2),
    f32_row<16, 16, 1, 4, F::f32>("v_mfma_f32_16x16x1_4b_f32", 8),
    f32_row<32, 32, 1, 2, F::f32>("v_mfma_f32_32x32x1_2b_f32", 16),
    f32_row<16, 16, 32, 1, F::fp8, F::fp8>("v_mfma_f32_16x16x32_fp8_fp8", 4),
    f32_row<16, 16, 32, 1, F::fp8, F::bf8>("v_mfma_f32_16x16x32_fp8_bf8", 4),
    f32_row<16, 16, 32, 1, F::bf8, F::fp8>("v_mfma_f32_16x16x32_bf8_fp8", 4),
    f32_row<16, 16, 32, 1, F::bf8, F::bf8>("v_mfma_f32_16x16x32_bf8_bf8", 4),
    f32_row<32, 32, 16, 1, F::fp8, F::fp8>("v_mfma_f32_32x32x16_fp8_fp8", 8),
    f32_row<32, 32, 16, 1, F::fp8, F::bf8>("v_mfma_f32_32x32x16_fp8_bf8", 8),
    f32_row<32, 32, 16, 1, F::bf8, F::fp8>("v_mfma_f32_32x32x16_bf8_fp8", 8),
    f32_row<32, 32, 16, 1, F::bf8, F::bf8>("v_mfma_f32_32x32x16_bf8_bf8", 8),
    i32_row<16, 16, 32, 1>("v_mfma_i32_16x16x32_i8", 4),
    i32_row<32, 32, 16, 1>("v_mfma_i32_32x32x16_i8", 8),
    i32_row<16, 16, 64, 1>("v_mfma_i32_16x16x64_i8", 4),
    i32_row<32, 32, 32, 1>("v_mfma_i32_32x32x32_i8", 8),
    i32_row<4, 4, 4, 16>("v_mfma_i32_4x4x4_16b_i8", 2),
    i32_row<16, 16, 4, 4>("v_mfma_i32_16x16x4_4b_i8", 8),
    i32_row<32, 32, 4, 2>("v_mfma_i32_32x32x4_2b_i8", 16),
    f64_row<16, 16, 4, 1>("v_mfma_f64_16x16x4_f64", 16),
    f64_row<4, 4, 4, 4>("v_mfma_f64_4x4x4_4b_f64", 8),
    f8f6f4_row<16, 16, 128>("v_mfma_f32_16x16x128_f8f6f4", 8),
    f8f6f4_row<32, 32, 64>("v_mfma_f32_32x32x64_f8f6f4", 16),
    f8f6f4_row<16, 16, 128>("v_mfma_scale_f32_16x16x128_f8f6f4", 8),
    f8f6f4_row<32, 32, 64>("v_mfma_scale_f32_32x32x64_f8f6f4", 16),
};

constexpr F kF8f6f4Formats[] = {F::fp8, F::bf8, F::fp6, F::bf6, F::fp4};

uint8_t registers(unsigned rows, unsigned k, unsigned blocks, F format) {
  return static_cast<uint8_t>(rows * k * blocks / 64 * bits_of(format) / 32);
}

}  // namespace

bool mfma_describe(std::string_view mnemonic, unsigned cbsz, unsigned abid, unsigned blgp, MfmaOp& out) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == mnemonic; });
  if (row == std::end(kRows) || cbsz > 7 || abid > 15 || blgp > 7) return false;
  out = {};
  out.m = row->m;
  out.n = row->n;
  out.k = row->k;
  out.blocks = row->blocks;
  out.a = row->a;
  out.b = row->b;
  out.cd = row->cd;
  out.passes = row->passes;
  out.kernel = row->kernel;
  out.cbsz = static_cast<uint8_t>(cbsz);
  out.abid = static_cast<uint8_t>(abid);
  out.blgp = static_cast<uint8_t>(blgp);
  out.f8f6f4 = mnemonic.size() > 6 && mnemonic.substr(mnemonic.size() - 6) == "f8f6f4";
  if (out.f8f6f4) {
    if (cbsz > 4 || blgp > 4) return false;
    out.scaled = mnemonic.substr(0, 13) == "v_mfma_scale_";
    out.a = kF8f6f4Formats[cbsz];
    out.b = kF8f6f4Formats[blgp];
    if (!is_8bit(out.a) && !is_8bit(out.b)) out.passes /= 2;
  } else if (out.cd == MatrixAccumulator::f64) {
    out.cbsz = out.abid = 0;  // ignored by these
  } else if (cbsz != 0 && (1u << cbsz) != out.blocks) {
    return false;  // more is undefined; for less, AMD's documents contradict each other (mfma.md)
  } else if (abid >= (1u << cbsz)) {
    return false;
  }
  out.a_regs = registers(out.m, out.k, out.blocks, out.a);
  out.b_regs = registers(out.n, out.k, out.blocks, out.b);
  out.cd_regs = static_cast<uint8_t>(out.m * out.n * out.blocks / 64 * (out.cd == MatrixAccumulator::f64 ? 2 : 1));
  return true;
}

void mfma_execute(const MfmaOp& op, const uint32_t (*a)[64], const uint32_t (*b)[64], const uint32_t (*c)[64],
                  uint64_t c_const, uint32_t (*d)[64], const uint32_t* scale_a, unsigned scale_a_byte,
                  const uint32_t* scale_b, unsigned scale_b_byte) {
  MfmaOperands operands{a, b, c, c_const, d, scale_a, scale_a_byte, scale_b, scale_b_byte};
  uint32_t b_moved[8][64], c_copy[32][64];
  if (op.blgp && !op.f8f6f4 && op.cd != MatrixAccumulator::f64) {
    for (unsigned r = 0; r < op.b_regs; ++r)
      for (unsigned lane = 0; lane < 64; ++lane) b_moved[r][lane] = b[r][blgp_lane(op.blgp, lane)];
    operands.b = b_moved;
  }
  // A and B are unpacked before D is written, C is read row by row beside it: fine when C is D, not when they overlap
  // askew.
  const auto address = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  const uintptr_t size = op.cd_regs * sizeof(uint32_t[64]);
  if (c && c != d && address(c) < address(d) + size && address(d) < address(c) + size) {
    std::memcpy(c_copy, c, size);
    operands.c = c_copy;
  }
  op.kernel(op, operands);
}

}  // namespace gfx950::exec
