// Registers of an MFMA operand -> panels that the tile kernels read: panel[k][column], one row of `width` columns for each k.
// A column is a row of A or a column of B, all blocks side by side: width = rows * blocks, and lane = group * width + column.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "mfma.h"

namespace gfx950::exec::mfma {

using Registers = const uint32_t (*)[64];

constexpr unsigned bits_of(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::f64: return 64;
    case MatrixFormat::f32: return 32;
    case MatrixFormat::f16:
    case MatrixFormat::bf16: return 16;
    case MatrixFormat::i8:
    case MatrixFormat::fp8:
    case MatrixFormat::bf8: return 8;
    case MatrixFormat::fp6:
    case MatrixFormat::bf6: return 6;
    case MatrixFormat::fp4: return 4;
  }
  return 0;
}

// Which k the element e of lane group g holds, for elements that share a dword.
struct KOrder {
  unsigned per_lane;  // elements per lane
  unsigned groups;    // 64 / width
  bool split16;       // 8-bit data of the f8f6f4 instructions: two runs of 16
  unsigned k(unsigned group, unsigned element) const {
    return split16 ? element / 16 * 16 * groups + 16 * group + element % 16 : per_lane * group + element;
  }
};

inline __m256i load8(const uint32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

// e4m3fn and e5m2: the 7 bits below the sign become the top bits of a small f32, and one multiplication re-biases it.
// Exact, also for denormals (the host must not flush them). `byte` is in bits 31..24.
inline __m256 fp8_to_f32(__m256i byte) {
  const __m256i magnitude = _mm256_srli_epi32(_mm256_slli_epi32(byte, 1), 5);
  __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(magnitude), _mm256_set1_ps(0x1p120f));
  const __m256i nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f << 20));
  value = _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000))));
  return _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_and_si256(byte, _mm256_set1_epi32(INT32_MIN))));
}

inline __m256 bf8_to_f32(__m256i byte) {
  const __m256i magnitude = _mm256_srli_epi32(_mm256_slli_epi32(byte, 1), 4);
  __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(magnitude), _mm256_set1_ps(0x1p112f));
  const __m256i special = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32((0x7c << 21) - 1));
  value = _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_and_si256(special, _mm256_set1_epi32(0x7f800000))));
  return _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_and_si256(byte, _mm256_set1_epi32(INT32_MIN))));
}

// The small formats as integers: fp4 * 2, fp6 * 8, bf6 * 16. All products and 32-element sums of these are exact in f32.
constexpr int integer_scale_log2(MatrixFormat format) {
  return format == MatrixFormat::fp4 ? 1 : format == MatrixFormat::fp6 ? 3 : 4;
}

// `code` holds one element per 32-bit lane in its low 4 bits.
inline __m256i fp4_to_int(__m256i code) {
  const __m256i table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  return _mm256_srai_epi32(_mm256_slli_epi32(_mm256_shuffle_epi8(table, code), 24), 24);
}

// `code` holds one element per 32-bit lane in its low 6 bits. The 5 bits below the sign are exponent and fraction.
template <int kFractionBits>
inline __m256i fp6_to_int(__m256i code) {
  const __m256i exponent = _mm256_and_si256(_mm256_srli_epi32(code, kFractionBits),
                                            _mm256_set1_epi32((1 << (5 - kFractionBits)) - 1));
  const __m256i fraction = _mm256_and_si256(code, _mm256_set1_epi32((1 << kFractionBits) - 1));
  const __m256i denormal = _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256());
  const __m256i hidden = _mm256_andnot_si256(denormal, _mm256_set1_epi32(1 << kFractionBits));
  const __m256i shift = _mm256_add_epi32(_mm256_sub_epi32(exponent, _mm256_set1_epi32(1)),
                                         _mm256_and_si256(denormal, _mm256_set1_epi32(1)));
  const __m256i magnitude = _mm256_sllv_epi32(_mm256_or_si256(fraction, hidden), shift);
  const __m256i sign = _mm256_srai_epi32(_mm256_slli_epi32(code, 26), 31);
  return _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign);
}

// The 6-bit elements 4q..4q+3 of a lane lie in bits 24q..24q+23 of its 6 registers: one 32-bit field with the 24 bits.
inline __m256i six_bit_quad(Registers regs, unsigned quad, unsigned lane) {
  const unsigned bit = 24 * quad, reg = bit / 32, offset = bit % 32;
  const __m256i low = _mm256_srli_epi32(load8(&regs[reg][lane]), static_cast<int>(offset));
  if (offset <= 8) return low;
  return _mm256_or_si256(low, _mm256_slli_epi32(load8(&regs[reg + 1][lane]), static_cast<int>(32 - offset)));
}

template <MatrixFormat F>
inline __m256i small_to_int(__m256i code) {
  if constexpr (F == MatrixFormat::fp4) return fp4_to_int(_mm256_and_si256(code, _mm256_set1_epi32(15)));
  if constexpr (F == MatrixFormat::fp6) return fp6_to_int<3>(_mm256_and_si256(code, _mm256_set1_epi32(63)));
  if constexpr (F == MatrixFormat::bf6) return fp6_to_int<2>(_mm256_and_si256(code, _mm256_set1_epi32(63)));
}

// Elements first..first+3 of 8 lanes, one dword of codes each; the element t is in bits t * bits_of(F) and up.
template <MatrixFormat F>
inline __m256i small_quad(Registers regs, unsigned first, unsigned lane) {
  if constexpr (F == MatrixFormat::fp4) {
    const __m256i dword = load8(&regs[first / 8][lane]);
    return first % 8 ? _mm256_srli_epi32(dword, 16) : dword;
  } else {
    return six_bit_quad(regs, first / 4, lane);
  }
}

template <MatrixFormat F>
__attribute__((always_inline)) inline void unpack_f32(Registers regs, unsigned width, KOrder order, float* panel) {
  const auto store = [&](unsigned k, unsigned column, __m256 value) { _mm256_storeu_ps(panel + k * width + column, value); };
  for (unsigned group = 0; group < order.groups; ++group) {
    for (unsigned column = 0; column < width; column += 8) {
      const unsigned lane = group * width + column;
      if constexpr (F == MatrixFormat::f32) {
        for (unsigned e = 0; e < order.per_lane; ++e)
          store(order.k(group, e), column, _mm256_castsi256_ps(load8(&regs[e][lane])));
      } else if constexpr (F == MatrixFormat::bf16) {
        for (unsigned e = 0; e < order.per_lane; e += 2) {
          const __m256i pair = load8(&regs[e / 2][lane]);
          const unsigned k = order.k(group, e);
          store(k, column, _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)));
          store(k + 1, column, _mm256_castsi256_ps(_mm256_and_si256(pair, _mm256_set1_epi32(INT32_MIN >> 15))));
        }
      } else if constexpr (F == MatrixFormat::f16) {
        // Two dwords of 8 lanes -> four rows of 8 halves, gathered with one byte shuffle inside each 128-bit half.
        const __m256i split = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
        for (unsigned e = 0; e < order.per_lane; e += 2) {
          const __m256i pair = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(load8(&regs[e / 2][lane]), split), 0xd8);
          const unsigned k = order.k(group, e);
          store(k, column, _mm256_cvtph_ps(_mm256_castsi256_si128(pair)));
          store(k + 1, column, _mm256_cvtph_ps(_mm256_extracti128_si256(pair, 1)));
        }
      } else if constexpr (F == MatrixFormat::fp8 || F == MatrixFormat::bf8) {
        for (unsigned e = 0; e < order.per_lane; e += 4) {
          const __m256i quad = load8(&regs[e / 4][lane]);
          const unsigned k = order.k(group, e);
          const auto convert = [](__m256i byte) {
            if constexpr (F == MatrixFormat::fp8) return fp8_to_f32(byte);
            else return bf8_to_f32(byte);
          };
          const __m256i top = _mm256_set1_epi32(INT32_MIN >> 7);
          store(k, column, convert(_mm256_slli_epi32(quad, 24)));
          store(k + 1, column, convert(_mm256_and_si256(_mm256_slli_epi32(quad, 16), top)));
          store(k + 2, column, convert(_mm256_and_si256(_mm256_slli_epi32(quad, 8), top)));
          store(k + 3, column, convert(_mm256_and_si256(quad, top)));
        }
      } else {
        const __m256 unit = _mm256_set1_ps(1.0f / static_cast<float>(1 << integer_scale_log2(F)));
        for (unsigned e = 0; e < order.per_lane; e += 4) {
          const __m256i quad = small_quad<F>(regs, e, lane);
          const unsigned k = order.k(group, e);
          for (unsigned t = 0; t < 4; ++t) {
            const __m256i value = small_to_int<F>(_mm256_srli_epi32(quad, static_cast<int>(t * bits_of(F))));
            store(k + t, column, _mm256_mul_ps(_mm256_cvtepi32_ps(value), unit));
          }
        }
      }
    }
  }
}

// panel[k / 2][column]: two 16-bit integers in one dword, the even k below. For i8, fp6, bf6, fp4 (scaled as above).
template <MatrixFormat F>
__attribute__((always_inline)) inline void unpack_i16(Registers regs, unsigned width, KOrder order, int32_t* panel) {
  const __m256i low_half = _mm256_set1_epi32(0xffff);
  for (unsigned group = 0; group < order.groups; ++group) {
    for (unsigned column = 0; column < width; column += 8) {
      const unsigned lane = group * width + column;
      for (unsigned e = 0; e < order.per_lane; e += 4) {
        __m256i value[4];
        if constexpr (F == MatrixFormat::i8) {
          const __m256i quad = load8(&regs[e / 4][lane]);
          for (int t = 0; t < 4; ++t) value[t] = _mm256_srai_epi32(_mm256_slli_epi32(quad, 24 - 8 * t), 24);
        } else {
          const __m256i quad = small_quad<F>(regs, e, lane);
          for (unsigned t = 0; t < 4; ++t)
            value[t] = small_to_int<F>(_mm256_srli_epi32(quad, static_cast<int>(t * bits_of(F))));
        }
        const unsigned k = order.k(group, e);
        for (unsigned t = 0; t < 4; t += 2) {
          const __m256i pair = _mm256_or_si256(_mm256_and_si256(value[t], low_half), _mm256_slli_epi32(value[t + 1], 16));
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + (k + t) / 2 * width + column), pair);
        }
      }
    }
  }
}

// panel[k / 4][column]: four bytes in one dword, for fp4: twice the value (plus `offset`).
inline void unpack_fp4_bytes(Registers regs, unsigned width, KOrder order, int8_t offset, int32_t* panel) {
  const __m256i table = _mm256_add_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3,
                                                                                  -4, -6, -8, -12)),
                                        _mm256_set1_epi8(offset));
  const __m256i nibble = _mm256_set1_epi8(15);
  for (unsigned group = 0; group < order.groups; ++group) {
    for (unsigned column = 0; column < width; column += 8) {
      for (unsigned e = 0; e < order.per_lane; e += 8) {
        const __m256i octet = load8(&regs[e / 8][group * width + column]);
        const __m256i even = _mm256_shuffle_epi8(table, _mm256_and_si256(octet, nibble));
        const __m256i odd = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(octet, 4), nibble));
        // Bytes of a dword hold elements (0,2,4,6) and (1,3,5,7); the order inside four is free as long as A and B agree,
        // so elements 0,2,4,6 go to one dword and 1,3,5,7 to the next.
        const unsigned row = order.k(group, e) / 4;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + row * width + column), even);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + (row + 1) * width + column), odd);
      }
    }
  }
}

}  // namespace gfx950::exec::mfma
