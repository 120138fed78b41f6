// exp2, log2, reciprocals, roots, sine: evaluated in double and rounded once to f32, so within 0.51 ulp of the exact
// value. The hardware's own results are within 1 ulp and differ from these in the last bit.
#include <cmath>
#include <limits>

#include "valu.h"

namespace gfx950::exec {
namespace {

double double_of(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, 8);
  return x;
}
uint64_t bits_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  return bits;
}

// 2^x. |f| <= 1/2 and the Taylor series of e^(f ln 2) to degree 9 leaves 1e-11.
inline float exp2_lane(float input) {
  const double clamped = input > -200.0f ? (input < 200.0f ? static_cast<double>(input) : 200.0) : -200.0;
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits
  const double shifted = clamped + kMagic;
  const double f = (clamped - (shifted - kMagic)) * 0.69314718055994530942;
  double p = 1.0 / 362880;
  p = p * f + 1.0 / 40320;
  p = p * f + 1.0 / 5040;
  p = p * f + 1.0 / 720;
  p = p * f + 1.0 / 120;
  p = p * f + 1.0 / 24;
  p = p * f + 1.0 / 6;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  const double scale = double_of((bits_of(shifted) + 1023) << 52);
  const float result = static_cast<float>(p * scale);
  return input == input ? result : input;
}

// log2 x: exponent plus 2/ln2 * atanh((m-1)/(m+1)) with m in [sqrt(1/2), sqrt(2)).
inline float log2_lane(float x) {
  const float infinity = std::numeric_limits<float>::infinity();
  const bool inside = (x > 0) & (x < infinity);
  const float safe = inside ? x : 1.0f;
  const bool denormal = safe < std::numeric_limits<float>::min();
  const float normal = denormal ? safe * 4294967296.0f : safe;
  int32_t bits;
  std::memcpy(&bits, &normal, 4);
  constexpr int32_t kHalfRoot = 0x3f3504f3;  // sqrt(1/2)
  const int32_t exponent = (bits - kHalfRoot) >> 23;
  const int32_t mantissa = bits - exponent * (1 << 23);
  float single;
  std::memcpy(&single, &mantissa, 4);
  const double m = static_cast<double>(single);
  const double e = static_cast<double>(exponent - (denormal ? 32 : 0));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  const float finite = static_cast<float>(e + 2.8853900817779268147 * s * p);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float special = x != x ? x : x < 0 ? nan : x == 0 ? -infinity : x;
  return inside ? finite : special;
}

inline float rsq_lane(float x) {
  const double root = std::sqrt(static_cast<double>(x));
  return static_cast<float>(1.0 / root);
}

double turn(double x) { return 6.2831853071795864769 * (x - std::nearbyint(x)); }

// 2/pi, its first bit below the point.
constexpr uint64_t kTwoOverPi[] = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull};
constexpr int kTwoOverPiBits = 1201;  // that the hardware keeps

// The 53 bits of 2/pi that segment `segment` of the reduction of x needs, scaled to their place.
double trig_preop(double x, uint32_t segment) {
  const int exponent = static_cast<int>(bits_of(x) >> 52 & 0x7ff);
  int shift = static_cast<int>(segment & 31) * 53;
  if (exponent > 1077) shift += exponent - 1077;
  uint64_t bits = 0;
  for (int i = shift; i < shift + 53; ++i) {
    const bool set = i < kTwoOverPiBits && (kTwoOverPi[i / 64] >> (63 - i % 64) & 1) != 0;
    bits = bits << 1 | (set ? 1 : 0);
  }
  return std::ldexp(static_cast<double>(bits), -53 - shift + (exponent >= 1968 ? 128 : 0));
}

}  // namespace

void register_transcendental(Registry& r) {
  constexpr uint8_t kQuarterRate = 4;
  r["v_exp_f32"] = lane_op<Ty::f32, Ty::f32>([](float x) { return exp2_lane(x); }, 0, kQuarterRate);
  r["v_log_f32"] = lane_op<Ty::f32, Ty::f32>([](float x) { return log2_lane(x); }, 0, kQuarterRate);
  r["v_rcp_f32"] = lane_op<Ty::f32, Ty::f32>([](float x) { return 1.0f / x; }, 0, kQuarterRate);
  r["v_rcp_iflag_f32"] = r["v_rcp_f32"];
  r["v_sqrt_f32"] = lane_op<Ty::f32, Ty::f32>([](float x) { return std::sqrt(x); }, 0, kQuarterRate);
  r["v_rsq_f32"] = lane_op<Ty::f32, Ty::f32>([](float x) { return rsq_lane(x); }, 0, kQuarterRate);
  r["v_sin_f32"] =
      lane_op<Ty::f32, Ty::f32>([](float x) { return static_cast<float>(std::sin(turn(x))); }, 0, kQuarterRate);
  r["v_cos_f32"] =
      lane_op<Ty::f32, Ty::f32>([](float x) { return static_cast<float>(std::cos(turn(x))); }, 0, kQuarterRate);
  r["v_exp_f16"] = lane_op<Ty::f16, Ty::f16>([](float x) { return exp2_lane(x); }, 0, kQuarterRate);
  r["v_log_f16"] = lane_op<Ty::f16, Ty::f16>([](float x) { return log2_lane(x); }, 0, kQuarterRate);
  r["v_rcp_f16"] = lane_op<Ty::f16, Ty::f16>([](float x) { return 1.0f / x; }, 0, kQuarterRate);
  r["v_sqrt_f16"] = lane_op<Ty::f16, Ty::f16>([](float x) { return std::sqrt(x); }, 0, kQuarterRate);
  r["v_rsq_f16"] = lane_op<Ty::f16, Ty::f16>([](float x) { return rsq_lane(x); }, 0, kQuarterRate);
  r["v_trig_preop_f64"] = lane_op<Ty::f64, Ty::f64, Ty::u32>([](double x, uint32_t k) { return trig_preop(x, k); });
  r["v_sin_f16"] =
      lane_op<Ty::f16, Ty::f16>([](float x) { return static_cast<float>(std::sin(turn(x))); }, 0, kQuarterRate);
  r["v_cos_f16"] =
      lane_op<Ty::f16, Ty::f16>([](float x) { return static_cast<float>(std::cos(turn(x))); }, 0, kQuarterRate);
  // In double the hardware gives a seed of about 2^-28 that the compiler refines; the exact value refines to the same.
  r["v_rcp_f64"] = lane_op<Ty::f64, Ty::f64>([](double x) { return 1.0 / x; }, 0, kQuarterRate);
  r["v_sqrt_f64"] = lane_op<Ty::f64, Ty::f64>([](double x) { return std::sqrt(x); }, 0, kQuarterRate);
  r["v_rsq_f64"] = lane_op<Ty::f64, Ty::f64>([](double x) { return 1.0 / std::sqrt(x); }, 0, kQuarterRate);
}

}  // namespace gfx950::exec
