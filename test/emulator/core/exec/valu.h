// Vector ALU: how a lane function becomes an instruction, with every source and result modifier.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "builder.h"
#include "wave.h"

namespace gfx950::exec {

// ---- lane values of each type
// -----------------------------------------------------------------------------------------

template <Ty T>
struct Lane;

template <class V>
struct Lane32 {
  using Value = V;
  static V load(const uint32_t* p, int i) {
    V value;
    std::memcpy(&value, p + i, 4);
    return value;
  }
  static void store(uint32_t* p, int i, V value) { std::memcpy(p + i, &value, 4); }
};
template <>
struct Lane<Ty::b32> : Lane32<uint32_t> {};
template <>
struct Lane<Ty::u32> : Lane32<uint32_t> {};
template <>
struct Lane<Ty::i32> : Lane32<int32_t> {};
template <>
struct Lane<Ty::f32> : Lane32<float> {};
template <>
struct Lane<Ty::mask> : Lane32<uint32_t> {};  // expanded: all ones or zero
template <>
struct Lane<Ty::pk16> : Lane32<uint32_t> {};

template <class V>
struct Lane16 {
  using Value = V;
  static V load(const uint32_t* p, int i) { return static_cast<V>(p[i]); }
  static void store(uint32_t* p, int i, V value) { p[i] = static_cast<uint16_t>(value); }
};
template <>
struct Lane<Ty::b16> : Lane16<uint16_t> {};
template <>
struct Lane<Ty::u16> : Lane16<uint16_t> {};
template <>
struct Lane<Ty::i16> : Lane16<int16_t> {};

template <class V>
struct Lane64 {
  using Value = V;
  static V load(const uint32_t* p, int i) {
    const uint64_t bits = p[i] | static_cast<uint64_t>(p[i + kLanes]) << 32;
    V value;
    std::memcpy(&value, &bits, 8);
    return value;
  }
  static void store(uint32_t* p, int i, V value) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    p[i] = static_cast<uint32_t>(bits);
    p[i + kLanes] = static_cast<uint32_t>(bits >> 32);
  }
};
template <>
struct Lane<Ty::b64> : Lane64<uint64_t> {};
template <>
struct Lane<Ty::u64> : Lane64<uint64_t> {};
template <>
struct Lane<Ty::i64> : Lane64<int64_t> {};
template <>
struct Lane<Ty::f64> : Lane64<double> {};

// Half precision is computed in single: rows are widened before and narrowed after.
template <>
struct Lane<Ty::f16> : Lane32<float> {};

// product + addend rounded to odd, so that a second rounding, to a shorter format, gives what a single one would.
inline double odd_sum(double product, double addend) {
  const double sum = product + addend;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  uint64_t bits;
  std::memcpy(&bits, &sum, 8);
  // Step an inexact even sum toward the side of its error.
  if (error != 0 && (bits & 1) == 0) bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
  double odd;
  std::memcpy(&odd, &bits, 8);
  return odd;
}

// a * b + c of f16 values, to be rounded once more to f16: rounded to odd here, so that the two roundings make one.
inline float half_fma(float a, float b, float c) {
  const double odd = odd_sum(static_cast<double>(a) * static_cast<double>(b), c);  // the product is exact: 22 bits
  // To single, again to odd: truncate and keep that something was cut.
  float cut = static_cast<float>(odd);
  const double rest = odd - static_cast<double>(cut);
  uint32_t narrow;
  std::memcpy(&narrow, &cut, 4);
  if (rest != 0 && rest == rest && (narrow & 1) == 0) narrow = (rest > 0) == (odd > 0) ? narrow + 1 : narrow - 1;
  std::memcpy(&cut, &narrow, 4);
  return cut;
}

inline void widen_half(const uint32_t* p, uint32_t* wide) {
  const __m256i low = _mm256_set1_epi32(0xffff);
  for (int i = 0; i < kLanes; i += 8) {
    const __m256i x = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i)), low);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0x08);
    _mm256_storeu_ps(reinterpret_cast<float*>(wide + i), _mm256_cvtph_ps(_mm256_castsi256_si128(packed)));
  }
}

inline void narrow_half(uint32_t* p) {
  const bool saturate = saturate_small_floats;
  for (int i = 0; i < kLanes; i += 8) {
    const __m256 x = _mm256_loadu_ps(reinterpret_cast<const float*>(p + i));
    const __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i code = _mm256_cvtepu16_epi32(half);
    if (saturate) {
      // An infinity that came from a finite number becomes the largest one.
      const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
      const __m256i finite = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f800000), magnitude);
      const __m256i infinite =
          _mm256_cmpeq_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x7fff)), _mm256_set1_epi32(0x7c00));
      code = _mm256_sub_epi32(code, _mm256_and_si256(_mm256_and_si256(finite, infinite), _mm256_set1_epi32(1)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + i), code);
  }
}

template <Ty T>
inline const uint32_t* widened(const uint32_t* p, uint32_t* buffer) {
  if constexpr (T == Ty::f16) {
    widen_half(p, buffer);
    return buffer;
  } else {
    return p;
  }
}

// ---- from a lane function to Lanes
// ------------------------------------------------------------------------------------

// F is the type of a lambda that captures nothing; calling it needs no object with state.
template <class F>
inline const F& stateless() {
  static_assert(std::is_empty<F>::value, "a lane function captures nothing");
  static const char storage = 0;
  return reinterpret_cast<const F&>(storage);
}

template <class F, Ty D, Ty... S>
struct Op;

template <class F, Ty D, Ty A>
struct Op<F, D, A> {
  static constexpr int kSources = 1;
  static inline void lanes(uint32_t* d, const uint32_t* a, const uint32_t*, const uint32_t*) {
    alignas(64) uint32_t wide[1][kLanes];
    a = widened<A>(a, wide[0]);
    const F& f = stateless<F>();
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) Lane<D>::store(d, i, f(Lane<A>::load(a, i)));
    if (D == Ty::f16) narrow_half(d);
  }
};

template <class F, Ty D, Ty A, Ty B>
struct Op<F, D, A, B> {
  static constexpr int kSources = 2;
  static inline void lanes(uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t*) {
    alignas(64) uint32_t wide[2][kLanes];
    a = widened<A>(a, wide[0]);
    b = widened<B>(b, wide[1]);
    const F& f = stateless<F>();
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) Lane<D>::store(d, i, f(Lane<A>::load(a, i), Lane<B>::load(b, i)));
    if (D == Ty::f16) narrow_half(d);
  }
};

template <class F, Ty D, Ty A, Ty B, Ty C>
struct Op<F, D, A, B, C> {
  static constexpr int kSources = 3;
  static inline void lanes(uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t* c) {
    alignas(64) uint32_t wide[3][kLanes];
    a = widened<A>(a, wide[0]);
    b = widened<B>(b, wide[1]);
    c = widened<C>(c, wide[2]);
    const F& f = stateless<F>();
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) {
      Lane<D>::store(d, i, f(Lane<A>::load(a, i), Lane<B>::load(b, i), Lane<C>::load(c, i)));
    }
    if (D == Ty::f16) narrow_half(d);
  }
};

// ---- handlers
// ---------------------------------------------------------------------------------------------------------

// No modifiers: sources read in place, whole rows written when EXEC is full.
template <class O, int Words>
void run_plain(Wave& w, const Inst& in) {
  alignas(64) uint32_t buffer[3][2 * kLanes];
  const uint32_t* a = source(w, in, 0, buffer[0]);
  const uint32_t* b = O::kSources > 1 ? source(w, in, 1, buffer[1]) : nullptr;
  const uint32_t* c = O::kSources > 2 ? source(w, in, 2, buffer[2]) : nullptr;
  uint32_t* d = w.v[in.dst];
  if (__builtin_expect(w.exec_full, 1)) {
    O::lanes(d, a, b, c);
  } else {
    alignas(64) uint32_t out[2 * kLanes];
    in.lanes(out, a, b, c);
    write_masked(w, d, out, Words);
  }
}

// Every modifier: DPP, SDWA, op_sel, neg, abs, sext on sources; omod, clamp, selectors on the result.
void run_modified(Wave& w, const Inst& in);

// The part of run_modified before the operation. Returns the lanes that DPP lets through.
struct Prepared {
  alignas(64) uint32_t buffer[3][2 * kLanes];
  const uint32_t* row[3] = {};
  uint64_t enabled = ~uint64_t{0};
};
void prepare_sources(Wave& w, const Inst& in, Prepared& out);
// The part after it: `out` holds the raw result.
void finish_result(Wave& w, const Inst& in, uint32_t* out, uint64_t enabled);

// inst.flags of vector ALU instructions.
enum ValuFlag : uint8_t { kDpp = 1, kSdwa = 2, kModified = 4, kHighHalf = 8, kKeepHigh = 16, kCmpx = 32 };

// Reads sources [first, first + nsrc) of `p.operands` by entry types, and every modifier; sets in.flags.
void build_sources(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in, size_t first);
void build_valu(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in);

template <Ty D, Ty... S, class F>
Entry lane_op(F, uint16_t flags = 0, uint8_t cost = 1) {
  using O = Op<F, D, S...>;
  Entry e;
  e.build = build_valu;
  e.lanes = O::lanes;
  e.fast = run_plain<O, words_of(D)>;
  e.dst = D;
  e.nsrc = O::kSources;
  const Ty types[] = {S...};
  for (int i = 0; i < O::kSources; ++i) e.src[i] = types[i];
  e.flags = flags;
  e.cost = cost;
  return e;
}

// The same operation with a saturating variant for the clamp bit.
template <Ty D, Ty... S, class F>
Entry with_clamp(Entry e, F) {
  e.extra = reinterpret_cast<const void*>(&Op<F, D, S...>::lanes);
  e.flags |= kIntegerClamp;
  return e;
}

// ---- two results: a value and a lane mask (carry, div_scale)
// ------------------------------------------------------------

using Lanes2 = void (*)(uint32_t* d, uint32_t* flag, const uint32_t* a, const uint32_t* b, const uint32_t* c);

}  // namespace gfx950::exec
