// Registers of an MFMA operand -> panels that the tile kernels read: panel[k][column], one row of `width` columns for
// each k. A column is a row of A or a column of B, all blocks side by side: width = rows * blocks, and lane = group *
// width + column.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "mfma.h"

namespace gfx950::exec::mfma {

using Registers = const uint32_t (*)[64];

constexpr unsigned bits_of(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::f64:
      return 64;
    case MatrixFormat::f32:
      return 32;
    case MatrixFormat::f16:
    case MatrixFormat::bf16:
      return 16;
    case MatrixFormat::i8:
    case MatrixFormat::fp8:
    case MatrixFormat::bf8:
      return 8;
    case MatrixFormat::fp6:
    case MatrixFormat::bf6:
      return 6;
    case MatrixFormat::fp4:
      return 4;
  }
  return 0;
}

// The small formats reach f32 through f16: their exponent and fraction are put where f16 has them, which gives the
// value times 2^-log2_surplus. Who uses the panel multiplies that back where it is cheap; it is exact everywhere.
constexpr int log2_surplus(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::fp8:
      return 8;
    case MatrixFormat::fp6:
    case MatrixFormat::fp4:
      return 14;
    case MatrixFormat::bf6:
      return 12;
    default:
      return 0;
  }
}

constexpr float power_of_two(int exponent) {
  float value = 1;
  for (; exponent > 0; --exponent) value *= 2;
  for (; exponent < 0; ++exponent) value /= 2;
  return value;
}

// Which k the element e of lane group g holds.
struct KOrder {
  unsigned per_lane;  // elements per lane
  unsigned groups;    // 64 / width
  bool split16;       // 8-bit data of the f8f6f4 instructions: two runs of 16
  unsigned k(unsigned group, unsigned element) const {
    return split16 ? element / 16 * 16 * groups + 16 * group + element % 16 : per_lane * group + element;
  }
};

inline __m256i load8(const uint32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

inline bool any_fp8_nan(Registers regs, unsigned count) {
  const __m256i nan = _mm256_set1_epi8(0x7f);
  __m256i found = _mm256_setzero_si256();
  for (unsigned r = 0; r < count; ++r)
    for (unsigned lane = 0; lane < 64; lane += 8)
      found = _mm256_or_si256(found, _mm256_cmpeq_epi8(_mm256_and_si256(load8(&regs[r][lane]), nan), nan));
  return !_mm256_testz_si256(found, found);
}

// 16 values of fp8, each in the high byte of a 16-bit lane, to f16 (2^-8 of the value; exponents are 7 against 15
// biased).
inline __m256i fp8_to_f16(__m256i high_byte, bool with_nan) {
  const __m256i half =
      _mm256_and_si256(_mm256_srai_epi16(high_byte, 1), _mm256_set1_epi16(static_cast<int16_t>(0xbf80)));
  if (!with_nan) return half;
  const __m256i nan = _mm256_set1_epi16(0x3f80);
  const __m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(half, nan), nan);
  return _mm256_or_si256(half, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
}

// Two 6-bit codes at bit 0 of each 16-bit lane, to f16 (2^-14 or 2^-12 of the value).
template <MatrixFormat F>
inline __m256i six_bit_to_f16(__m256i code) {
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(code, 10), _mm256_set1_epi16(INT16_MIN));
  constexpr int kShift = F == MatrixFormat::fp6 ? 7 : 8;
  return _mm256_or_si256(sign, _mm256_and_si256(_mm256_slli_epi16(code, kShift), _mm256_set1_epi16(31 << kShift)));
}

// The 6-bit elements 4q..4q+3 of a lane lie in bits 24q..24q+23 of its 6 registers: one dword with these 24 bits
// lowest.
inline __m256i six_bit_quad(Registers regs, unsigned quad, unsigned lane) {
  const unsigned bit = 24 * quad, reg = bit / 32, offset = bit % 32;
  const __m256i low = _mm256_srli_epi32(load8(&regs[reg][lane]), static_cast<int>(offset));
  if (offset <= 8) return low;
  return _mm256_or_si256(low, _mm256_slli_epi32(load8(&regs[reg + 1][lane]), static_cast<int>(32 - offset)));
}

// fp4 codes in the low nibbles of bytes, to the high bytes of their f16 (2^-14 of the value); the low bytes are zero.
inline __m256i fp4_to_f16_high(__m256i nibbles) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_setr_epi8(0x00, 0x02, 0x04, 0x06, 0x08, 0x0a, 0x0c, 0x0e, -0x80,
                                                                  -0x7e, -0x7c, -0x7a, -0x78, -0x76, -0x74, -0x72));
  return _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
}

// Writes two rows of 8 columns from 16 halves: `halves` holds row 0's first 4 columns, row 1's first 4, then the last
// 4s.
template <int kExtraLog2>
inline void store_rows(float* row0, float* row1, __m256i halves) {
  halves = _mm256_permute4x64_epi64(halves, 0xd8);
  __m256 first = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  __m256 second = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  if constexpr (kExtraLog2 != 0) {
    const __m256 factor = _mm256_set1_ps(power_of_two(kExtraLog2));
    first = _mm256_mul_ps(first, factor);
    second = _mm256_mul_ps(second, factor);
  }
  _mm256_storeu_ps(row0, first);
  _mm256_storeu_ps(row1, second);
}

// For each dword, byte t goes to the high byte of a half of row t; convert() finishes the halves.
template <int kExtraLog2, class Convert>
inline void store_bytes(float* const (&row)[4], __m256i quads, const Convert& convert) {
  const __m256i first =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, 4, -1, 8, -1, 12, -1, 1, -1, 5, -1, 9, -1, 13));
  const __m256i second =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 2, -1, 6, -1, 10, -1, 14, -1, 3, -1, 7, -1, 11, -1, 15));
  store_rows<kExtraLog2>(row[0], row[1], convert(_mm256_shuffle_epi8(quads, first)));
  store_rows<kExtraLog2>(row[2], row[3], convert(_mm256_shuffle_epi8(quads, second)));
}

// To f32, times 2^(kExtraLog2 - log2_surplus(F)).
template <MatrixFormat F, int kExtraLog2 = 0>
__attribute__((always_inline)) inline void unpack_f32(Registers regs, unsigned width, KOrder order, float* panel) {
  // Halves of 8 dwords to two rows, see store_rows().
  const __m256i split =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  [[maybe_unused]] const bool with_nan = F == MatrixFormat::fp8 && any_fp8_nan(regs, order.per_lane / 4);
  for (unsigned group = 0; group < order.groups; ++group) {
    for (unsigned column = 0; column < width; column += 8) {
      const unsigned lane = group * width + column;
      const auto row = [&](unsigned element) { return panel + order.k(group, element) * width + column; };
      if constexpr (F == MatrixFormat::f32) {
        for (unsigned e = 0; e < order.per_lane; ++e)
          _mm256_storeu_ps(row(e), _mm256_castsi256_ps(load8(&regs[e][lane])));
      } else if constexpr (F == MatrixFormat::bf16) {
        for (unsigned e = 0; e < order.per_lane; e += 2) {
          const __m256i pair = load8(&regs[e / 2][lane]);
          _mm256_storeu_ps(row(e), _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)));
          _mm256_storeu_ps(row(e + 1), _mm256_castsi256_ps(_mm256_and_si256(pair, _mm256_set1_epi32(INT32_MIN >> 15))));
        }
      } else if constexpr (F == MatrixFormat::f16) {
        for (unsigned e = 0; e < order.per_lane; e += 2)
          store_rows<kExtraLog2>(row(e), row(e + 1), _mm256_shuffle_epi8(load8(&regs[e / 2][lane]), split));
      } else if constexpr (F == MatrixFormat::fp8 || F == MatrixFormat::bf8) {
        for (unsigned e = 0; e < order.per_lane; e += 4) {
          float* const rows[4] = {row(e), row(e + 1), row(e + 2), row(e + 3)};
          store_bytes<kExtraLog2>(rows, load8(&regs[e / 4][lane]), [&](__m256i high_byte) {
            return F == MatrixFormat::fp8 ? fp8_to_f16(high_byte, with_nan) : high_byte;
          });
        }
      } else if constexpr (F == MatrixFormat::fp4) {
        for (unsigned e = 0; e < order.per_lane; e += 8) {
          const __m256i octet = load8(&regs[e / 8][lane]);
          float* const even[4] = {row(e), row(e + 2), row(e + 4), row(e + 6)};
          float* const odd[4] = {row(e + 1), row(e + 3), row(e + 5), row(e + 7)};
          const auto keep = [](__m256i high_byte) { return high_byte; };
          store_bytes<kExtraLog2>(even, fp4_to_f16_high(octet), keep);
          store_bytes<kExtraLog2>(odd, fp4_to_f16_high(_mm256_srli_epi16(octet, 4)), keep);
        }
      } else {
        for (unsigned e = 0; e < order.per_lane; e += 4) {
          const __m256i quad = six_bit_quad(regs, e / 4, lane);
          // The low half of each dword takes the even element, the high half the odd one.
          const __m256i first = _mm256_blend_epi16(quad, _mm256_slli_epi32(quad, 10), 0xaa);
          const __m256i second = _mm256_blend_epi16(_mm256_srli_epi32(quad, 12), _mm256_srli_epi32(quad, 2), 0xaa);
          store_rows<kExtraLog2>(row(e), row(e + 1), _mm256_shuffle_epi8(six_bit_to_f16<F>(first), split));
          store_rows<kExtraLog2>(row(e + 2), row(e + 3), _mm256_shuffle_epi8(six_bit_to_f16<F>(second), split));
        }
      }
    }
  }
}

// i8 to pairs of 16-bit integers, panel[k / 2][column]. The four elements of a dword become the pairs (0,2) and (1,3):
// any order will do as long as A and B agree.
__attribute__((always_inline)) inline void unpack_i8(Registers regs, unsigned width, KOrder order, int32_t* panel) {
  for (unsigned group = 0; group < order.groups; ++group) {
    for (unsigned column = 0; column < width; column += 8) {
      for (unsigned e = 0; e < order.per_lane; e += 4) {
        const __m256i quad = load8(&regs[e / 4][group * width + column]);
        int32_t* row = panel + order.k(group, e) / 2 * width + column;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(row), _mm256_srai_epi16(_mm256_slli_epi16(quad, 8), 8));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + width), _mm256_srai_epi16(quad, 8));
      }
    }
  }
}

// fp4 to bytes, twice the value plus `offset`, panel[k / 4][column]. Elements 0,2,4,6 and 1,3,5,7 share a dword.
inline void unpack_fp4_bytes(Registers regs, unsigned width, KOrder order, int8_t offset, int32_t* panel) {
  const __m256i table = _mm256_add_epi8(
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)),
      _mm256_set1_epi8(offset));
  const __m256i nibble = _mm256_set1_epi8(15);
  for (unsigned group = 0; group < order.groups; ++group) {
    for (unsigned column = 0; column < width; column += 8) {
      for (unsigned e = 0; e < order.per_lane; e += 8) {
        const __m256i octet = load8(&regs[e / 8][group * width + column]);
        const __m256i even = _mm256_shuffle_epi8(table, _mm256_and_si256(octet, nibble));
        const __m256i odd = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(octet, 4), nibble));
        int32_t* row = panel + order.k(group, e) / 4 * width + column;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(row), even);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + width), odd);
      }
    }
  }
}

}  // namespace gfx950::exec::mfma
