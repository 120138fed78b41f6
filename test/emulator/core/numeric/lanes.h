// Conversions of whole registers, 64 lanes at a time, for the hot instructions. Same results as formats.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace gfx950::numeric {

constexpr unsigned kLanes = 64;

inline __m256i load_lanes(const uint32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline void store_lanes(uint32_t* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }

// f32 bits -> bf16 in the low half of each lane, nearest even; NaN stays NaN, quiet.
inline __m256i bf16_from_f32(__m256i bits) {
  const __m256i top = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  return _mm256_blendv_epi8(rounded, _mm256_or_si256(top, _mm256_set1_epi32(0x40)), nan);
}

// d = bf16(low) | bf16(high) << 16 of f32 registers.
inline void pack_bf16(const uint32_t* low, const uint32_t* high, uint32_t* d) {
  for (unsigned lane = 0; lane < kLanes; lane += 8)
    store_lanes(d + lane, _mm256_or_si256(bf16_from_f32(load_lanes(low + lane)),
                                          _mm256_slli_epi32(bf16_from_f32(load_lanes(high + lane)), 16)));
}

// kRounding: _MM_FROUND_TO_NEAREST_INT or _MM_FROUND_TO_ZERO. Overflow gives infinity (nearest) or the largest (to
// zero).
template <int kRounding>
inline __m256i f16_from_f32(__m256i bits) {
  return _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_castsi256_ps(bits), kRounding | _MM_FROUND_NO_EXC));
}

template <int kRounding>
inline void pack_f16(const uint32_t* low, const uint32_t* high, uint32_t* d) {
  for (unsigned lane = 0; lane < kLanes; lane += 8)
    store_lanes(d + lane, _mm256_or_si256(f16_from_f32<kRounding>(load_lanes(low + lane)),
                                          _mm256_slli_epi32(f16_from_f32<kRounding>(load_lanes(high + lane)), 16)));
}

// The low half of each lane (f16) -> f32 bits.
inline __m256i f32_from_f16(__m256i lanes) {
  const __m256i low = _mm256_and_si256(lanes, _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(packed)));
}

inline void unpack_f16(const uint32_t* s, unsigned shift, uint32_t* d) {  // shift: 0 or 16
  for (unsigned lane = 0; lane < kLanes; lane += 8)
    store_lanes(d + lane,
                f32_from_f16(_mm256_srl_epi32(load_lanes(s + lane), _mm_cvtsi32_si128(static_cast<int>(shift)))));
}

inline void unpack_bf16(const uint32_t* s, unsigned shift, uint32_t* d) {  // shift: 0 or 16
  for (unsigned lane = 0; lane < kLanes; ++lane) d[lane] = s[lane] >> shift << 16;
}

}  // namespace gfx950::numeric
