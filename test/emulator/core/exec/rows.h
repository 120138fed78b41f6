// Between memory, where a lane's dwords lie together, and registers, where a dword's lanes do.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "wave.h"

namespace gfx950::exec {

// d[k][lane] = dword k at address[lane], for all lanes.
template <int Words, class Address>
inline void gather_all(uint32_t* d, Address address) {
  if constexpr (Words == 1) {
    for (int i = 0; i < kLanes; ++i) std::memcpy(d + i, address(i), 4);
  } else if constexpr (Words == 2) {
    for (int i = 0; i < kLanes; i += 4) {
      const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(address(i)));
      const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(address(i + 1)));
      const __m128i c = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(address(i + 2)));
      const __m128i e = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(address(i + 3)));
      const __m128i ab = _mm_unpacklo_epi32(a, b), ce = _mm_unpacklo_epi32(c, e);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i), _mm_unpacklo_epi64(ab, ce));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + kLanes + i), _mm_unpackhi_epi64(ab, ce));
    }
  } else if constexpr (Words == 4) {
    for (int i = 0; i < kLanes; i += 4) {
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address(i)));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address(i + 1)));
      const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address(i + 2)));
      const __m128i e = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address(i + 3)));
      const __m128i ab0 = _mm_unpacklo_epi32(a, b), ce0 = _mm_unpacklo_epi32(c, e);
      const __m128i ab1 = _mm_unpackhi_epi32(a, b), ce1 = _mm_unpackhi_epi32(c, e);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i), _mm_unpacklo_epi64(ab0, ce0));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + kLanes + i), _mm_unpackhi_epi64(ab0, ce0));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + 2 * kLanes + i), _mm_unpacklo_epi64(ab1, ce1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + 3 * kLanes + i), _mm_unpackhi_epi64(ab1, ce1));
    }
  } else {
    for (int i = 0; i < kLanes; ++i) {
      uint32_t x[Words];
      std::memcpy(x, address(i), sizeof x);
      for (int k = 0; k < Words; ++k) d[k * kLanes + i] = x[k];
    }
  }
}

// The reverse.
template <int Words, class Address>
inline void scatter_all(const uint32_t* s, Address address) {
  if constexpr (Words == 4) {
    for (int i = 0; i < kLanes; i += 4) {
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + kLanes + i));
      const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + 2 * kLanes + i));
      const __m128i e = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + 3 * kLanes + i));
      const __m128i ab0 = _mm_unpacklo_epi32(a, b), ce0 = _mm_unpacklo_epi32(c, e);
      const __m128i ab1 = _mm_unpackhi_epi32(a, b), ce1 = _mm_unpackhi_epi32(c, e);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(address(i)), _mm_unpacklo_epi64(ab0, ce0));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(address(i + 1)), _mm_unpackhi_epi64(ab0, ce0));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(address(i + 2)), _mm_unpacklo_epi64(ab1, ce1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(address(i + 3)), _mm_unpackhi_epi64(ab1, ce1));
    }
  } else {
    for (int i = 0; i < kLanes; ++i) {
      uint32_t x[Words];
      for (int k = 0; k < Words; ++k) x[k] = s[k * kLanes + i];
      std::memcpy(address(i), x, sizeof x);
    }
  }
}

template <class F>
inline void for_each_lane(uint64_t lanes, F f) {
  while (lanes != 0) {
    f(__builtin_ctzll(lanes));
    lanes &= lanes - 1;
  }
}

}  // namespace gfx950::exec
