// The number formats of gfx950 and their conversions from and to f32, on bit patterns.
//
//   format  bits  exponent/fraction  bias  largest   infinities  NaN              name in other places
//   f16      16        5 / 10         15   65504        yes      exponent 31      IEEE binary16
//   bf16     16        8 / 7         127   3.39e38      yes      exponent 255     bfloat16
//   fp8       8        4 / 3           7   448          no       S.1111.111       OCP E4M3 (float8_e4m3fn)
//   bf8       8        5 / 2          15   57344        yes      exponent 31      OCP E5M2 (float8_e5m2)
//   fp6       6        2 / 3           1   7.5          no       none             OCP MX E2M3
//   bf6       6        3 / 2           3   28           no       none             OCP MX E3M2
//   fp4       4        2 / 1           1   6            no       none             OCP MX E2M1
//   e8m0      8        8 / 0         127   2^127        no       255              OCP MX scale: 2^(code - 127), no sign
//
// Denormals are produced and read exactly. lanes.h has the same for arrays, where speed counts.
#pragma once

#include <cstdint>
#include <cstring>

namespace gfx950::numeric {

enum class NanCode { all_exponent_ones, all_ones, none };

struct Format {
  int exponent_bits, fraction_bits, bias;
  bool infinities;
  NanCode nan;
  constexpr int bits() const { return 1 + exponent_bits + fraction_bits; }
  constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
  constexpr uint32_t magnitude_mask() const { return sign_bit() - 1; }
  constexpr uint32_t infinity_code() const {  // also the first code that is not finite
    return ((1u << exponent_bits) - 1) << fraction_bits;
  }
  constexpr uint32_t largest_code() const {
    if (nan == NanCode::all_exponent_ones) return infinity_code() - 1;
    return nan == NanCode::all_ones ? magnitude_mask() - 1 : magnitude_mask();
  }
};

inline constexpr Format f16{5, 10, 15, true, NanCode::all_exponent_ones};
inline constexpr Format bf16{8, 7, 127, true, NanCode::all_exponent_ones};
inline constexpr Format fp8{4, 3, 7, false, NanCode::all_ones};
inline constexpr Format bf8{5, 2, 15, true, NanCode::all_exponent_ones};
inline constexpr Format fp6{2, 3, 1, false, NanCode::none};
inline constexpr Format bf6{3, 2, 3, false, NanCode::none};
inline constexpr Format fp4{2, 1, 1, false, NanCode::none};

enum class Rounding {
  nearest_even,
  toward_zero,
  stochastic,  // adds random bits below the last kept one, then cuts: rounds away with a chance equal to the cut
               // fraction
};

// What becomes of a magnitude beyond the largest finite one. Formats without infinity and NaN always saturate.
enum class Overflow {
  to_infinity,      // fp8, which has none: NaN. Toward zero: a finite value becomes the largest instead
  saturate_finite,  // a finite value becomes the largest, infinity stays (MODE.FP16_OVFL for f16)
  saturate,         // infinity becomes the largest, too (MODE.FP16_OVFL for fp8 and bf8; the clamp bit)
};

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Code of `format` -> f32, exact. NaN keeps its sign and as much of its payload as it has, made quiet.
inline float to_f32(const Format& format, uint32_t code) {
  const uint32_t sign = (code & format.sign_bit()) ? 0x80000000u : 0;
  const uint32_t magnitude = code & format.magnitude_mask();
  const uint32_t fraction = magnitude & ((1u << format.fraction_bits) - 1);
  if (magnitude > format.largest_code()) {
    if (format.infinities && magnitude == format.infinity_code()) return float_of(sign | 0x7f800000u);
    const uint32_t payload = format.nan == NanCode::all_ones ? 0 : fraction << (23 - format.fraction_bits);
    return float_of(sign | 0x7fc00000u | payload);
  }
  const int exponent = static_cast<int>(magnitude >> format.fraction_bits);
  // fraction * 2^scale, exact: the denormals of bf16 are denormals of f32, every other result is normal.
  const uint32_t significand = exponent ? fraction | 1u << format.fraction_bits : fraction;
  const int scale = (exponent ? exponent : 1) - format.bias - format.fraction_bits;
  if (scale >= -126) return float_of(sign | bits_of(static_cast<float>(significand) * float_of((scale + 127u) << 23)));
  return float_of(sign | bits_of(static_cast<float>(significand) * float_of((scale + 64 + 127u) << 23) * 0x1p-64f));
}

// f32 -> code of `format`, one rounding. `random` counts only for Rounding::stochastic: its top bits are used, as many
// as are cut off. NaN becomes the format's NaN with the same sign (in f16, bf16 and bf8 with the top of its payload,
// made quiet); a format without NaN gets its largest magnitude.
inline uint32_t from_f32(const Format& format, float value, Rounding rounding, Overflow overflow, uint32_t random = 0) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 31 ? format.sign_bit() : 0;
  if (magnitude > 0x7f800000u) {
    if (format.nan != NanCode::all_exponent_ones) return sign | format.magnitude_mask();
    const uint32_t payload = (magnitude & 0x7fffffu) >> (23 - format.fraction_bits);
    return sign | format.infinity_code() | payload | 1u << (format.fraction_bits - 1);
  }
  uint32_t code = format.largest_code() + 1;  // for infinity
  if (magnitude < 0x7f800000u) {
    const int biased = static_cast<int>(magnitude >> 23);
    uint32_t significand = biased ? (magnitude & 0x7fffffu) | 0x800000u : magnitude;
    const int exponent = (biased ? biased : 1) - 127, lowest = 1 - format.bias;
    int cut = 23 - format.fraction_bits + (exponent < lowest ? lowest - exponent : 0);
    if (cut > 31) {                                   // everything: at most half of the last place from 25 on
      significand >>= cut - 31 > 24 ? 24 : cut - 31;  // random bits keep their weight
      cut = 31;
    }
    uint32_t kept = significand >> cut;
    const uint32_t rest = significand & ((1u << cut) - 1), half = 1u << (cut - 1);
    if (rounding == Rounding::nearest_even) kept += rest > half || (rest == half && (kept & 1));
    if (rounding == Rounding::stochastic) kept = (significand + (random >> (32 - cut))) >> cut;
    const int base = (exponent < lowest ? lowest : exponent) + format.bias - 1;
    code = (static_cast<uint32_t>(base) << format.fraction_bits) + kept;
    if (code > format.largest_code() && rounding == Rounding::toward_zero) code = format.largest_code();
  }
  if (code <= format.largest_code()) return sign | code;
  const bool finite = magnitude < 0x7f800000u;
  const bool saturate = overflow == Overflow::saturate || (overflow == Overflow::saturate_finite && finite);
  if (saturate || format.nan == NanCode::none) return sign | format.largest_code();
  return sign | (format.infinities ? format.infinity_code() : format.magnitude_mask());
}

// Block scale -> f32. Code 0 is the denormal 2^-127, code 255 NaN.
inline float e8m0_to_f32(uint32_t code) {
  return float_of(code == 255 ? 0x7fc00000u : code == 0 ? 0x00400000u : code << 23);
}

// The scale whose power of two is the largest not above |value|: what the v_cvt_scalef32 instructions take of a f32
// scale is its exponent field alone. Infinity and NaN give 255.
inline uint32_t e8m0_from_f32(float value) { return bits_of(value) >> 23 & 0xff; }

}  // namespace gfx950::numeric
