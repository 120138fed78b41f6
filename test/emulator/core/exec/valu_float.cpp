// Vector ALU on f32 and f64. MODE asks for round to nearest even, as the host does; contraction is off in the build.
#include <cmath>
#include <limits>

#include "number_order.h"
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;

template <class T>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Type = uint32_t;
};
template <>
struct BitsOf<double> {
  using Type = uint64_t;
};

template <class T>
typename BitsOf<T>::Type bits(T x) {
  typename BitsOf<T>::Type y;
  std::memcpy(&y, &x, sizeof x);
  return y;
}
template <class T>
T from_bits(typename BitsOf<T>::Type x) {
  T y;
  std::memcpy(&y, &x, sizeof x);
  return y;
}

template <class T>
struct OrderOf;
template <>
struct OrderOf<float> {
  using Type = NumberOrder<uint32_t, 23>;
};
template <>
struct OrderOf<double> {
  using Type = NumberOrder<uint64_t, 52>;
};

template <class T>
T max_number(T a, T b) {
  return from_bits<T>(OrderOf<T>::Type::max(bits(a), bits(b)));
}
template <class T>
T min_number(T a, T b) {
  return from_bits<T>(OrderOf<T>::Type::min(bits(a), bits(b)));
}
// A NaN beats a number.
template <class T>
T maximum(T a, T b) {
  return a != a || b != b ? a + b : max_number(a, b);
}
template <class T>
T minimum(T a, T b) {
  return a != a || b != b ? a + b : min_number(a, b);
}
template <class T>
T median(T a, T b, T c) {
  return from_bits<T>(OrderOf<T>::Type::median(bits(a), bits(b), bits(c)));
}

float ldexp32(float a, int b) {
  // In double every step is exact, so the conversion is the only rounding.
  const int clamped = b < -400 ? -400 : b > 400 ? 400 : b;
  const double scale = from_bits<double>(static_cast<uint64_t>(1023 + clamped) << 52);
  return static_cast<float>(static_cast<double>(a) * scale);
}

template <class T>
T fraction(T a) {
  const T x = a - std::floor(a);
  const T below_one = std::nextafter(T(1), T(0));
  return x < T(1) ? x : x != x ? x : below_one;
}

void register_f32(Registry& r) {
  r["v_add_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32>([](float a, float b) { return a + b; });
  r["v_sub_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32>([](float a, float b) { return a - b; });
  r["v_subrev_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32>([](float a, float b) { return b - a; });
  r["v_mul_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32>([](float a, float b) { return a * b; });
  r["v_mul_legacy_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32>([](float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; });
  r["v_fma_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float a, float b, float c) { return std::fma(a, b, c); });
  r["v_fmac_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>(
      [](float a, float b, float c) { return std::fma(a, b, c); }, kReadsDst);
  r["v_fmamk_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float a, float k, float c) { return std::fma(a, k, c); });
  r["v_fmaak_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float a, float b, float k) { return std::fma(a, b, k); });
  r["v_max_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32>([](float a, float b) { return max_number(a, b); });
  r["v_min_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32>([](float a, float b) { return min_number(a, b); });
  r["v_max3_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>(
      [](float a, float b, float c) { return max_number(max_number(a, b), c); });
  r["v_min3_f32"] = lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>(
      [](float a, float b, float c) { return min_number(min_number(a, b), c); });
  r["v_med3_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float a, float b, float c) { return median(a, b, c); });
  r["v_maximum3_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float a, float b, float c) { return maximum(maximum(a, b), c); });
  r["v_minimum3_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float a, float b, float c) { return minimum(minimum(a, b), c); });
  r["v_ldexp_f32"] = lane_op<Ty::f32, Ty::f32, Ty::i32>([](float a, int32_t b) { return ldexp32(a, b); });
  r["v_trunc_f32"] = lane_op<Ty::f32, Ty::f32>([](float a) { return std::trunc(a); });
  r["v_floor_f32"] = lane_op<Ty::f32, Ty::f32>([](float a) { return std::floor(a); });
  r["v_ceil_f32"] = lane_op<Ty::f32, Ty::f32>([](float a) { return std::ceil(a); });
  r["v_rndne_f32"] = lane_op<Ty::f32, Ty::f32>([](float a) { return std::nearbyint(a); });
  r["v_fract_f32"] = lane_op<Ty::f32, Ty::f32>([](float a) { return fraction(a); });
  r["v_frexp_mant_f32"] = lane_op<Ty::f32, Ty::f32>([](float a) {
    int exponent;
    return std::isfinite(a) ? std::frexp(a, &exponent) : a;
  });
  r["v_frexp_exp_i32_f32"] = lane_op<Ty::i32, Ty::f32>([](float a) {
    int exponent = 0;
    if (std::isfinite(a) && a != 0) (void)std::frexp(a, &exponent);
    return exponent;
  });
}

void register_f64(Registry& r) {
  r["v_add_f64"] = lane_op<Ty::f64, Ty::f64, Ty::f64>([](double a, double b) { return a + b; });
  r["v_mul_f64"] = lane_op<Ty::f64, Ty::f64, Ty::f64>([](double a, double b) { return a * b; });
  r["v_fma_f64"] =
      lane_op<Ty::f64, Ty::f64, Ty::f64, Ty::f64>([](double a, double b, double c) { return std::fma(a, b, c); });
  r["v_fmac_f64"] = lane_op<Ty::f64, Ty::f64, Ty::f64, Ty::f64>(
      [](double a, double b, double c) { return std::fma(a, b, c); }, kReadsDst);
  r["v_max_f64"] = lane_op<Ty::f64, Ty::f64, Ty::f64>([](double a, double b) { return max_number(a, b); });
  r["v_min_f64"] = lane_op<Ty::f64, Ty::f64, Ty::f64>([](double a, double b) { return min_number(a, b); });
  r["v_ldexp_f64"] = lane_op<Ty::f64, Ty::f64, Ty::i32>([](double a, int32_t b) { return std::ldexp(a, b); });
  r["v_trunc_f64"] = lane_op<Ty::f64, Ty::f64>([](double a) { return std::trunc(a); });
  r["v_floor_f64"] = lane_op<Ty::f64, Ty::f64>([](double a) { return std::floor(a); });
  r["v_ceil_f64"] = lane_op<Ty::f64, Ty::f64>([](double a) { return std::ceil(a); });
  r["v_rndne_f64"] = lane_op<Ty::f64, Ty::f64>([](double a) { return std::nearbyint(a); });
  r["v_fract_f64"] = lane_op<Ty::f64, Ty::f64>([](double a) { return fraction(a); });
  r["v_frexp_mant_f64"] = lane_op<Ty::f64, Ty::f64>([](double a) {
    int exponent;
    return std::isfinite(a) ? std::frexp(a, &exponent) : a;
  });
  r["v_frexp_exp_i32_f64"] = lane_op<Ty::i32, Ty::f64>([](double a) {
    int exponent = 0;
    if (std::isfinite(a) && a != 0) (void)std::frexp(a, &exponent);
    return exponent;
  });
}

}  // namespace

void register_valu_float(Registry& r) {
  register_f32(r);
  register_f64(r);
}

// Half precision, computed in single: one operation of two f16 rounds the same either way.
void register_valu_half(Registry& r) {
  r["v_add_f16"] = lane_op<Ty::f16, Ty::f16, Ty::f16>([](float a, float b) { return a + b; });
  r["v_sub_f16"] = lane_op<Ty::f16, Ty::f16, Ty::f16>([](float a, float b) { return a - b; });
  r["v_subrev_f16"] = lane_op<Ty::f16, Ty::f16, Ty::f16>([](float a, float b) { return b - a; });
  r["v_mul_f16"] = lane_op<Ty::f16, Ty::f16, Ty::f16>([](float a, float b) { return a * b; });
  // On 16-bit patterns: widening would lose the difference between the two kinds of NaN.
  using u16 = uint16_t;
  using Order = NumberOrder<u16, 10>;
  auto on_bits = [](Entry e) {
    for (Ty& type : e.src) type = type == Ty::none ? type : Ty::f16;
    e.dst = Ty::f16;
    return e;
  };
  r["v_max_f16"] = on_bits(lane_op<Ty::b16, Ty::b16, Ty::b16>([](u16 a, u16 b) { return Order::max(a, b); }));
  r["v_min_f16"] = on_bits(lane_op<Ty::b16, Ty::b16, Ty::b16>([](u16 a, u16 b) { return Order::min(a, b); }));
  r["v_max3_f16"] = on_bits(lane_op<Ty::b16, Ty::b16, Ty::b16, Ty::b16>(
      [](u16 a, u16 b, u16 c) { return Order::max(Order::max(a, b), c); }, kPreservesHigh));
  r["v_min3_f16"] = on_bits(lane_op<Ty::b16, Ty::b16, Ty::b16, Ty::b16>(
      [](u16 a, u16 b, u16 c) { return Order::min(Order::min(a, b), c); }, kPreservesHigh));
  r["v_med3_f16"] = on_bits(lane_op<Ty::b16, Ty::b16, Ty::b16, Ty::b16>(
      [](u16 a, u16 b, u16 c) { return Order::median(a, b, c); }, kPreservesHigh));
  r["v_trunc_f16"] = lane_op<Ty::f16, Ty::f16>([](float a) { return std::trunc(a); });
  r["v_floor_f16"] = lane_op<Ty::f16, Ty::f16>([](float a) { return std::floor(a); });
  r["v_ceil_f16"] = lane_op<Ty::f16, Ty::f16>([](float a) { return std::ceil(a); });
  r["v_rndne_f16"] = lane_op<Ty::f16, Ty::f16>([](float a) { return std::nearbyint(a); });
  r["v_fract_f16"] = lane_op<Ty::f16, Ty::f16>([](float a) {
    const float x = a - std::floor(a);
    return x < 0.99951171875f ? x : x != x ? x : 0.99951171875f;  // the largest f16 below one
  });
  r["v_ldexp_f16"] = lane_op<Ty::f16, Ty::f16, Ty::i16>([](float a, int16_t b) { return ldexp32(a, b); });
  r["v_frexp_mant_f16"] = lane_op<Ty::f16, Ty::f16>([](float a) {
    int exponent;
    return std::isfinite(a) ? std::frexp(a, &exponent) : a;
  });
  r["v_frexp_exp_i16_f16"] = lane_op<Ty::i16, Ty::f16>([](float a) {
    int exponent = 0;
    if (std::isfinite(a) && a != 0) (void)std::frexp(a, &exponent);
    return static_cast<int16_t>(exponent);
  });
  auto fma16 = [](float a, float b, float c) { return half_fma(a, b, c); };
  r["v_fma_f16"] = lane_op<Ty::f16, Ty::f16, Ty::f16, Ty::f16>(fma16, kPreservesHigh);
}

}  // namespace gfx950::exec
