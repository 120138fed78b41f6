// Vector instructions with two results: a value and a lane mask (carry out, scaling flag), or that read VCC unasked.
#include <cmath>

#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

void run_carry(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[2 * kLanes];
  alignas(64) u32 flag[kLanes];
  const uint64_t exec = w.exec();
  reinterpret_cast<Lanes2>(reinterpret_cast<uintptr_t>(in.extra))(out, flag, sources.row[0], sources.row[1],
                                                                  sources.row[2]);
  const u64 enabled = sources.enabled & exec;
  const u64 old = w.read64(in.dst2);
  finish_result(w, in, out, sources.enabled);
  const u64 fresh = collect_mask(flag) & exec;
  w.write64(in.dst2, sources.enabled == ~u64{0} ? fresh : (fresh & enabled) | (old & ~enabled));
}

void build_carry(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  if (p.operands.size() < 2) Builder::refuse("needs a value and a mask result");
  in.dst = b.vector_destination(p.operands[0], words_of(e.dst));
  in.dst_words = static_cast<uint8_t>(words_of(e.dst));
  in.words = static_cast<uint8_t>(e.dst);
  in.dst2 = b.scalar_destination(p.operands[1], 2);
  build_sources(b, p, e, in, 2);
  if (in.omod != 0 || in.clamp != 0) Builder::refuse("result modifier");
  in.extra = e.extra;
  in.fn = run_carry;
}

template <class F, Ty D, Ty A, Ty B, Ty C>
void lanes2(u32* d, u32* flag, const u32* a, const u32* b, const u32* c) {
  const F& f = stateless<F>();
  for (int i = 0; i < kLanes; ++i) {
    bool set = false;
    const auto value =
        C == Ty::none
            ? f(Lane<A>::load(a, i), Lane<B>::load(b, i), typename Lane < C == Ty::none ? Ty::u32 : C > ::Value{}, set)
            : f(Lane<A>::load(a, i), Lane<B>::load(b, i), Lane < C == Ty::none ? Ty::u32 : C > ::load(c, i), set);
    Lane<D>::store(d, i, value);
    flag[i] = set ? ~u32{0} : 0;
  }
}

template <Ty D, Ty A, Ty B, Ty C, class F>
Entry two_results(F, uint8_t cost = 1) {
  Entry e;
  e.build = build_carry;
  e.extra = reinterpret_cast<const void*>(&lanes2<F, D, A, B, C>);
  e.dst = D;
  e.src[0] = A;
  e.src[1] = B;
  e.src[2] = C;
  e.nsrc = C == Ty::none ? 2 : 3;
  e.cost = cost;
  return e;
}

// div_scale: `s` is the operand to scale, `b` the denominator, `c` the numerator.
template <class V>
struct Format;
template <>
struct Format<float> {
  static constexpr int kBias = 127, kMantissa = 23, kMax = 255, kScale = 64, kDistance = 96;
  using Bits = u32;
};
template <>
struct Format<double> {
  static constexpr int kBias = 1023, kMantissa = 52, kMax = 2047, kScale = 128, kDistance = 768;
  using Bits = u64;
};

template <class V>
int exponent_of(V x) {
  typename Format<V>::Bits bits;
  std::memcpy(&bits, &x, sizeof x);
  return static_cast<int>(bits >> Format<V>::kMantissa & Format<V>::kMax);
}
template <class V>
bool is_denormal(V x) {
  return x != 0 && exponent_of(x) == 0;
}

template <class V>
V div_scale(V s, V denominator, V numerator, bool& flag) {
  using F = Format<V>;
  flag = false;
  V d = s;
  if (denominator == 0 || numerator == 0) {
    d = std::numeric_limits<V>::quiet_NaN();
  } else if (exponent_of(numerator) - exponent_of(denominator) >= F::kDistance) {
    flag = true;  // the quotient is near the largest number
    if (s == denominator) d = std::ldexp(s, F::kScale);
  } else if (is_denormal(denominator)) {
    d = std::ldexp(s, F::kScale);
  } else {
    // In long double: in the type itself 1/denominator may vanish before the test.
    const long double reciprocal = 1.0L / static_cast<long double>(denominator);
    const long double quotient = static_cast<long double>(numerator) / static_cast<long double>(denominator);
    const bool small_reciprocal = reciprocal != 0 && std::fabs(reciprocal) < std::numeric_limits<V>::min();
    const bool small_quotient = quotient != 0 && std::fabs(quotient) < std::numeric_limits<V>::min();
    if (small_reciprocal && small_quotient) {
      flag = true;
      if (s == denominator)
        d = std::ldexp(s, -F::kScale);  // the pseudocode has "+", which overflows: NaN from there on
    } else if (small_reciprocal) {
      d = std::ldexp(s, -F::kScale);
    } else if (small_quotient) {
      flag = true;
      if (s == numerator) d = std::ldexp(s, F::kScale);
    } else if (exponent_of(numerator) <= F::kMantissa) {
      d = std::ldexp(s, F::kScale);
    }
  }
  return d;
}

// div_fmas undoes what div_scale did in the lanes that it flagged in VCC: it had scaled the denominator up when the
// quotient is large, the numerator when it is tiny, which the exponent of the estimate (the third source) tells. AMD's
// pseudocode has 2^32 (f32) and 2^64 (f64) here, with which a division comes out wrong.
template <class V, Ty T>
void run_div_fmas(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[2 * kLanes];
  const u64 vcc = w.read64(kVcc);
  for (int i = 0; i < kLanes; ++i) {
    const V a = Lane<T>::load(sources.row[0], i), b = Lane<T>::load(sources.row[1], i);
    const V estimate = Lane<T>::load(sources.row[2], i);
    int scale = 0;
    if ((vcc >> i & 1) != 0) scale = exponent_of(estimate) > Format<V>::kBias ? Format<V>::kScale : -Format<V>::kScale;
    V x;
    if constexpr (sizeof(V) == 4) {  // one rounding, also of a result that the scale makes denormal
      x = static_cast<V>(std::ldexp(odd_sum(static_cast<double>(a) * static_cast<double>(b), estimate), scale));
    } else {
      x = std::ldexp(std::fma(a, b, estimate), scale);
    }
    Lane<T>::store(out, i, x);
  }
  finish_result(w, in, out, sources.enabled);
}

template <class V>
V div_fixup(V quotient, V denominator, V numerator) {
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  const V infinity = std::numeric_limits<V>::infinity();
  auto with_sign = [&](V x) { return negative ? -std::fabs(x) : std::fabs(x); };
  if (std::isnan(numerator)) return numerator;
  if (std::isnan(denominator)) return denominator;
  if (denominator == 0 && numerator == 0) return std::numeric_limits<V>::quiet_NaN();
  if (std::isinf(denominator) && std::isinf(numerator)) return std::numeric_limits<V>::quiet_NaN();
  if (denominator == 0 || std::isinf(numerator)) return with_sign(infinity);
  if (std::isinf(denominator) || numerator == 0) return with_sign(V(0));
  const int distance = exponent_of(numerator) - exponent_of(denominator);
  if (distance < -(Format<V>::kBias + Format<V>::kMantissa)) return with_sign(V(0));  // underflows in any rounding
  if (exponent_of(denominator) == Format<V>::kMax) return with_sign(infinity);
  return with_sign(std::isnan(quotient) ? infinity : quotient);  // NaN: an overflow on the way
}

// The f16 form has no limits of its own to repair: the quotient was computed in f32.
float div_fixup_half(float quotient, float denominator, float numerator) {
  const bool special = std::isnan(numerator) || std::isnan(denominator) || denominator == 0 || numerator == 0 ||
                       std::isinf(numerator) || std::isinf(denominator);
  if (special) return div_fixup(quotient, denominator, numerator);
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  return negative ? -std::fabs(quotient) : std::fabs(quotient);
}

void build_div_fmas(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  build_valu(b, p, e, in);
  in.fn = e.fast;
}

}  // namespace

void register_carry(Registry& r) {
  auto add = [](u32 a, u32 b, u32 c, bool& carry) {
    const u64 x = u64(a) + b + (c & 1);
    carry = x >> 32 != 0;
    return u32(x);
  };
  auto sub = [](u32 a, u32 b, u32 c, bool& borrow) {
    const u64 take = u64(b) + (c & 1);
    borrow = take > a;
    return u32(a - take);
  };
  auto subrev = [](u32 a, u32 b, u32 c, bool& borrow) {
    const u64 take = u64(a) + (c & 1);
    borrow = take > b;
    return u32(b - take);
  };
  r["v_add_co_u32"] = two_results<Ty::u32, Ty::u32, Ty::u32, Ty::none>(add);
  r["v_sub_co_u32"] = two_results<Ty::u32, Ty::u32, Ty::u32, Ty::none>(sub);
  r["v_subrev_co_u32"] = two_results<Ty::u32, Ty::u32, Ty::u32, Ty::none>(subrev);
  r["v_addc_co_u32"] = two_results<Ty::u32, Ty::u32, Ty::u32, Ty::mask>(add);
  r["v_subb_co_u32"] = two_results<Ty::u32, Ty::u32, Ty::u32, Ty::mask>(sub);
  r["v_subbrev_co_u32"] = two_results<Ty::u32, Ty::u32, Ty::u32, Ty::mask>(subrev);
  r["v_mad_u64_u32"] = two_results<Ty::u64, Ty::u32, Ty::u32, Ty::u64>(
      [](u32 a, u32 b, u64 c, bool& carry) {
        const u64 product = u64(a) * b;
        const u64 x = product + c;
        carry = x < product;
        return x;
      },
      4);
  r["v_mad_i64_i32"] = two_results<Ty::i64, Ty::i32, Ty::i32, Ty::i64>(
      [](i32 a, i32 b, i64 c, bool& carry) {
        i64 x;
        // Bit 64 of the exact sum, which is its sign: not the overflow.
        carry = __builtin_add_overflow(i64(a) * b, c, &x) != (x < 0);
        return x;
      },
      4);
  r["v_div_scale_f32"] = two_results<Ty::f32, Ty::f32, Ty::f32, Ty::f32>(
      [](float a, float b, float c, bool& flag) { return div_scale(a, b, c, flag); });
  r["v_div_scale_f64"] = two_results<Ty::f64, Ty::f64, Ty::f64, Ty::f64>(
      [](double a, double b, double c, bool& flag) { return div_scale(a, b, c, flag); });
  r["v_div_fixup_f32"] =
      lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float q, float b, float a) { return div_fixup(q, b, a); });
  r["v_div_fixup_f64"] =
      lane_op<Ty::f64, Ty::f64, Ty::f64, Ty::f64>([](double q, double b, double a) { return div_fixup(q, b, a); });
  r["v_div_fixup_f16"] = lane_op<Ty::f16, Ty::f16, Ty::f16, Ty::f16>(
      [](float q, float b, float a) { return div_fixup_half(q, b, a); }, kPreservesHigh);
  Entry e = lane_op<Ty::f32, Ty::f32, Ty::f32, Ty::f32>([](float a, float b, float c) { return std::fma(a, b, c); });
  e.build = build_div_fmas;
  e.fast = run_div_fmas<float, Ty::f32>;
  r["v_div_fmas_f32"] = e;
  e = lane_op<Ty::f64, Ty::f64, Ty::f64, Ty::f64>([](double a, double b, double c) { return std::fma(a, b, c); });
  e.build = build_div_fmas;
  e.fast = run_div_fmas<double, Ty::f64>;
  r["v_div_fmas_f64"] = e;
}

}  // namespace gfx950::exec
