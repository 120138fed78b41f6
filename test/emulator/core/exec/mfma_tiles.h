// Tile kernels of the MFMA: 4 or 6 rows by 16 columns at a time, which is 8 or 12 AVX2 accumulators.
//
// A panel of A is read element by element (broadcast), a panel of B 16 columns at a time. Rows of C and D lie
// contiguously in the register file for every MFMA layout, so the kernels read and write them in place.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

namespace gfx950::exec::mfma {

// Where row i of C and D (of one block) begins, in 32-bit elements from the start of the operand's registers.
inline unsigned row_offset(unsigned m, unsigned n, unsigned block, unsigned i) {
  const unsigned row_groups = 64 / n;  // rows of one block side by side in a register
  const unsigned quarter = m * n / 4;  // lanes that 4 consecutive rows of all columns take per register
  const unsigned blocks_per_register = (64 + quarter - 1) / quarter;
  const unsigned reg = block * (m * n / 64) + i / (4 * row_groups) * 4 + i % 4;
  const unsigned lane = block % blocks_per_register * n + i / 4 % row_groups * blocks_per_register * n;
  return reg * 64 + lane;
}

// The same for f64: rows of elements; an element's low half is in register 2r, its high half in 2r + 1.
inline unsigned row_offset_f64(unsigned m, unsigned n, unsigned block, unsigned i) {
  const unsigned row_groups = 64 / n;
  const unsigned blocks_per_register = (64 + m * n - 1) / (m * n);
  const unsigned reg = 2 * (block * (m * n / 64) + i / row_groups);
  const unsigned lane = block % blocks_per_register * n + i % row_groups * blocks_per_register * n;
  return reg * 64 + lane;
}

// C as the kernels see it: the operand's registers, or one value for every element.
struct Addend {
  const float* rows;  // nullptr: constant
  float constant;
  __m256 load(unsigned offset) const { return rows ? _mm256_loadu_ps(rows + offset) : _mm256_set1_ps(constant); }
};

struct AddendInt {
  const int32_t* rows;
  int32_t constant;
  __m256i load(unsigned offset) const {
    return rows ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + offset)) : _mm256_set1_epi32(constant);
  }
};

// D = C + A*B in f32 for R rows, which begin at offset[r], and 16 columns.
template <unsigned R>
__attribute__((always_inline)) inline void rows_f32(const float* a, unsigned a_stride, const float* b,
                                                    unsigned b_stride, unsigned k_count, const unsigned* offset,
                                                    Addend c, float* d) {
  __m256 low[R], high[R];
#pragma GCC unroll 8
  for (unsigned r = 0; r < R; ++r) {
    low[r] = c.load(offset[r]);
    high[r] = c.load(offset[r] + 8);
  }
#pragma GCC unroll 2
  for (unsigned k = 0; k < k_count; ++k, a += a_stride, b += b_stride) {
    const __m256 b_low = _mm256_loadu_ps(b), b_high = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 8
    for (unsigned r = 0; r < R; ++r) {
      const __m256 element = _mm256_broadcast_ss(a + r);
      low[r] = _mm256_fmadd_ps(element, b_low, low[r]);
      high[r] = _mm256_fmadd_ps(element, b_high, high[r]);
    }
  }
#pragma GCC unroll 8
  for (unsigned r = 0; r < R; ++r) {
    _mm256_storeu_ps(d + offset[r], low[r]);
    _mm256_storeu_ps(d + offset[r] + 8, high[r]);
  }
}

// D = C + A*B in f32: per element one chain of fused multiply-adds in ascending k, beginning with C. N is a multiple
// of 16. Six rows at a time keep the multipliers busier than four, where there are enough k to make up for the odd
// remainder.
template <unsigned M, unsigned N>
__attribute__((always_inline)) inline void tile_f32(const float* a, unsigned a_stride, const float* b,
                                                    unsigned b_stride, unsigned k_count, unsigned block, Addend c,
                                                    float* d) {
  for (unsigned j = 0; j < N; j += 16) {
    unsigned i = 0;
    const auto run = [&](auto rows) __attribute__((always_inline)) {
      constexpr unsigned R = decltype(rows)::value;
      unsigned offset[R];
      for (unsigned r = 0; r < R; ++r) offset[r] = row_offset(M, N, block, i + r) + j;
      rows_f32<R>(a + i, a_stride, b + j, b_stride, k_count, offset, c, d);
      i += R;
    };
    if constexpr (M == 16) {
      run(std::integral_constant<unsigned, 6>());
      run(std::integral_constant<unsigned, 6>());
    }
    while (i < M) run(std::integral_constant<unsigned, 4>());
  }
}

// D = C + A*B in wrapping 32-bit integers; panels hold pairs of 16-bit integers along k.
template <unsigned M, unsigned N>
void tile_i32(const int32_t* a, unsigned a_stride, const int32_t* b, unsigned b_stride, unsigned pairs, unsigned block,
              AddendInt c, int32_t* d) {
  for (unsigned i = 0; i < M; i += 4) {
    unsigned offset[4];
    for (unsigned r = 0; r < 4; ++r) offset[r] = row_offset(M, N, block, i + r);
    for (unsigned j = 0; j < N; j += 16) {
      __m256i low[4], high[4];
      for (unsigned r = 0; r < 4; ++r) {
        low[r] = c.load(offset[r] + j);
        high[r] = c.load(offset[r] + j + 8);
      }
#pragma GCC unroll 4
      for (unsigned p = 0; p < pairs; ++p) {
        const __m256i b_low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * b_stride + j));
        const __m256i b_high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * b_stride + j + 8));
#pragma GCC unroll 4
        for (unsigned r = 0; r < 4; ++r) {
          const __m256i pair = _mm256_set1_epi32(a[p * a_stride + i + r]);
          low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(pair, b_low));
          high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(pair, b_high));
        }
      }
      for (unsigned r = 0; r < 4; ++r) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + offset[r] + j), low[r]);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + offset[r] + j + 8), high[r]);
      }
    }
  }
}

// Block scales of the f8f6f4 instructions, [k / 32][row or column], and how they are applied to a block's sum.
enum class Scaling {
  none,
  factors,    // scale_a * sum stays inside f32
  exponents,  // it might not, although scale_a * scale_b * sum does
};

struct BlockScales {
  const float* a = nullptr;
  const float* b = nullptr;
  const int32_t* a_exponent = nullptr;  // INT32_MIN / 2 stands for NaN
  const int32_t* b_exponent = nullptr;
  unsigned a_stride = 0, b_stride = 0;
  float unit = 1.0f;  // a power of two that every sum is still to be multiplied by
};

inline __m256 exp2_int(__m256i exponent) {  // -126..127
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
}

// acc + sum * 2^(a + b), one rounding. Past +-200 a product overflows or vanishes whatever the sum is, so the exponent
// is clamped there and applied in two exact steps.
inline __m256 add_extreme(__m256 sum, int32_t a, __m256i b, __m256 acc) {
  const __m256i total = _mm256_add_epi32(_mm256_set1_epi32(a), b);
  const __m256i nan = _mm256_cmpgt_epi32(_mm256_set1_epi32(-1000), total);
  const __m256i clamped = _mm256_max_epi32(_mm256_min_epi32(total, _mm256_set1_epi32(200)), _mm256_set1_epi32(-200));
  const __m256i half = _mm256_srai_epi32(clamped, 1);
  const __m256 scaled = _mm256_mul_ps(sum, exp2_int(half));
  const __m256 result = _mm256_fmadd_ps(scaled, exp2_int(_mm256_sub_epi32(clamped, half)), acc);
  return _mm256_or_ps(result, _mm256_castsi256_ps(nan));
}

template <Scaling S>
inline __m256 add_block(__m256 sum, const BlockScales& s, unsigned kb, unsigned row, unsigned column, __m256 acc) {
  if constexpr (S == Scaling::none) {
    return _mm256_fmadd_ps(sum, _mm256_set1_ps(s.unit), acc);
  } else if constexpr (S == Scaling::factors) {
    const __m256 scaled = _mm256_mul_ps(sum, _mm256_set1_ps(s.a[kb * s.a_stride + row] * s.unit));
    return _mm256_fmadd_ps(scaled, _mm256_loadu_ps(s.b + kb * s.b_stride + column), acc);
  } else {
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.b_exponent + kb * s.b_stride + column));
    return add_extreme(_mm256_mul_ps(sum, _mm256_set1_ps(s.unit)), s.a_exponent[kb * s.a_stride + row], b, acc);
  }
}

// f8f6f4, sums of 32 elements by two routes; fp4 by fp4 would have the same result by either.
struct SumF32 {  // panels of f32: a chain of fused multiply-adds in ascending k, beginning with 0
  using Element = float;
  static constexpr unsigned rows_per_block = 32;
  static void run(const float* a, unsigned a_stride, const float* b, unsigned b_stride, __m256 (&low)[4],
                  __m256 (&high)[4]) {
    for (unsigned r = 0; r < 4; ++r) low[r] = high[r] = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (unsigned k = 0; k < 32; ++k, a += a_stride, b += b_stride) {
      const __m256 b_low = _mm256_loadu_ps(b), b_high = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 4
      for (unsigned r = 0; r < 4; ++r) {
        const __m256 element = _mm256_broadcast_ss(a + r);
        low[r] = _mm256_fmadd_ps(element, b_low, low[r]);
        high[r] = _mm256_fmadd_ps(element, b_high, high[r]);
      }
    }
  }
};

// fp4 by fp4: bytes of A hold 2a + 12 (0..24), bytes of B 2b (-12..12), so that the unsigned-by-signed byte product
// applies; the surplus 12 * sum(2b) is taken off at the end. 16 bits hold the sums: 16 products of at most 288. Exact.
struct SumFp4 {
  using Element = int32_t;
  static constexpr unsigned rows_per_block = 8;
  static constexpr int offset = 12;
  static void run(const int32_t* a, unsigned a_stride, const int32_t* b, unsigned b_stride, __m256 (&low)[4],
                  __m256 (&high)[4]) {
    const __m256i twelve = _mm256_set1_epi8(offset), ones = _mm256_set1_epi16(1);
    __m256i sum_low[4], sum_high[4], surplus_low = _mm256_setzero_si256(), surplus_high = _mm256_setzero_si256();
    for (unsigned r = 0; r < 4; ++r) sum_low[r] = sum_high[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (unsigned q = 0; q < 8; ++q, a += a_stride, b += b_stride) {
      const __m256i b_low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
      const __m256i b_high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 8));
      surplus_low = _mm256_add_epi16(surplus_low, _mm256_maddubs_epi16(twelve, b_low));
      surplus_high = _mm256_add_epi16(surplus_high, _mm256_maddubs_epi16(twelve, b_high));
#pragma GCC unroll 4
      for (unsigned r = 0; r < 4; ++r) {
        const __m256i quad = _mm256_set1_epi32(a[r]);
        sum_low[r] = _mm256_add_epi16(sum_low[r], _mm256_maddubs_epi16(quad, b_low));
        sum_high[r] = _mm256_add_epi16(sum_high[r], _mm256_maddubs_epi16(quad, b_high));
      }
    }
    for (unsigned r = 0; r < 4; ++r) {
      low[r] = _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_sub_epi16(sum_low[r], surplus_low), ones));
      high[r] = _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_sub_epi16(sum_high[r], surplus_high), ones));
    }
  }
};

// D = C + sum over blocks of 32 of (scale_a * scale_b * block's sum), blocks in ascending k, each added with one
// rounding.
template <class Sum, unsigned M, unsigned N, unsigned K, Scaling S>
void tile_blocks(const typename Sum::Element* a, const typename Sum::Element* b, const BlockScales& scales, Addend c,
                 float* d) {
  for (unsigned i = 0; i < M; i += 4) {
    unsigned offset[4];
    for (unsigned r = 0; r < 4; ++r) offset[r] = row_offset(M, N, 0, i + r);
    for (unsigned j = 0; j < N; j += 16) {
      // The accumulators stay in D between blocks: the sums need the vector registers.
      for (unsigned kb = 0; kb < K / 32; ++kb) {
        __m256 low[4], high[4];
        Sum::run(a + kb * Sum::rows_per_block * M + i, M, b + kb * Sum::rows_per_block * N + j, N, low, high);
        const Addend acc = kb == 0 ? c : Addend{d, 0.0f};
        for (unsigned r = 0; r < 4; ++r) {
          float* out = d + offset[r] + j;
          _mm256_storeu_ps(out, add_block<S>(low[r], scales, kb, i + r, j, acc.load(offset[r] + j)));
          _mm256_storeu_ps(out + 8, add_block<S>(high[r], scales, kb, i + r, j + 8, acc.load(offset[r] + j + 8)));
        }
      }
    }
  }
}

template <class Sum, unsigned M, unsigned N, unsigned K>
void tile_blocks(const typename Sum::Element* a, const typename Sum::Element* b, Scaling scaling,
                 const BlockScales& scales, Addend c, float* d) {
  switch (scaling) {
    case Scaling::none:
      return tile_blocks<Sum, M, N, K, Scaling::none>(a, b, scales, c, d);
    case Scaling::factors:
      return tile_blocks<Sum, M, N, K, Scaling::factors>(a, b, scales, c, d);
    case Scaling::exponents:
      return tile_blocks<Sum, M, N, K, Scaling::exponents>(a, b, scales, c, d);
  }
}

}  // namespace gfx950::exec::mfma
