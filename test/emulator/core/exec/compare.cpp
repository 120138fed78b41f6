// Vector comparisons: a lane mask into a pair of scalar registers (and EXEC for v_cmpx).
#include <cmath>

#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;

// O::lanes fills a row of all ones or zero.
template <class O>
void run_compare(Wave& w, const Inst& in) {
  alignas(64) u32 out[kLanes];
  u64 result;
  const u64 exec = w.exec();
  if (in.flags == 0) {
    alignas(64) u32 buffer[2][2 * kLanes];
    const u32* a = source(w, in, 0, buffer[0]);
    const u32* b = source(w, in, 1, buffer[1]);
    O::lanes(out, a, b, nullptr);
    result = collect_mask(out) & exec;
  } else {
    Prepared sources;
    prepare_sources(w, in, sources);
    O::lanes(out, sources.row[0], sources.row[1], nullptr);
    result = collect_mask(out) & exec;
    if (sources.enabled != ~u64{0}) {
      const u64 enabled = sources.enabled & exec;
      result = (result & enabled) | (w.read64(in.dst) & ~enabled);
    }
  }
  w.write64(in.dst, result);
  if ((in.flags & kCmpx) != 0) w.write64(kExec, result);
}

void build_compare(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  if (p.operands.empty()) Builder::refuse("no destination");
  in.dst = b.scalar_destination(p.operands[0], 2);
  build_sources(b, p, e, in, 1);
  if (in.clamp != 0) Builder::refuse("clamp on a comparison");
  if ((e.flags & kWritesExec) != 0) in.flags |= kCmpx;
  in.fn = e.fast;
}

template <Ty A, Ty B, class F>
Entry comparison(F, uint16_t flags) {
  using O = Op<F, Ty::u32, A, B>;
  Entry e;
  e.build = build_compare;
  e.fast = run_compare<O>;
  e.src[0] = A;
  e.src[1] = B;
  e.nsrc = 2;
  e.flags = flags;
  return e;
}

template <Ty T, class F>
void both(Registry& r, const char* name, const char* type, F f) {
  r[std::string("v_cmp_") + name + "_" + type] = comparison<T, T>(f, 0);
  r[std::string("v_cmpx_") + name + "_" + type] = comparison<T, T>(f, kWritesExec);
}

constexpr u32 yes(bool condition) { return condition ? ~u32{0} : 0; }

template <Ty T>
void integers(Registry& r, const char* type) {
  using V = typename Lane<T>::Value;
  both<T>(r, "f", type, [](V, V) { return u32{0}; });
  both<T>(r, "lt", type, [](V a, V b) { return yes(a < b); });
  both<T>(r, "eq", type, [](V a, V b) { return yes(a == b); });
  both<T>(r, "le", type, [](V a, V b) { return yes(a <= b); });
  both<T>(r, "gt", type, [](V a, V b) { return yes(a > b); });
  both<T>(r, "ne", type, [](V a, V b) { return yes(a != b); });
  both<T>(r, "ge", type, [](V a, V b) { return yes(a >= b); });
  both<T>(r, "t", type, [](V, V) { return ~u32{0}; });
}

template <Ty T>
void floats(Registry& r, const char* type) {
  using V = typename Lane<T>::Value;
  both<T>(r, "f", type, [](V, V) { return u32{0}; });
  both<T>(r, "lt", type, [](V a, V b) { return yes(a < b); });
  both<T>(r, "eq", type, [](V a, V b) { return yes(a == b); });
  both<T>(r, "le", type, [](V a, V b) { return yes(a <= b); });
  both<T>(r, "gt", type, [](V a, V b) { return yes(a > b); });
  both<T>(r, "lg", type, [](V a, V b) { return yes(a < b) | yes(a > b); });
  both<T>(r, "ge", type, [](V a, V b) { return yes(a >= b); });
  both<T>(r, "o", type, [](V a, V b) { return yes(a == a) & yes(b == b); });
  both<T>(r, "u", type, [](V a, V b) { return yes(a != a) | yes(b != b); });
  both<T>(r, "nge", type, [](V a, V b) { return ~yes(a >= b); });
  both<T>(r, "nlg", type, [](V a, V b) { return ~(yes(a < b) | yes(a > b)); });
  both<T>(r, "ngt", type, [](V a, V b) { return ~yes(a > b); });
  both<T>(r, "nle", type, [](V a, V b) { return ~yes(a <= b); });
  both<T>(r, "neq", type, [](V a, V b) { return yes(a != b); });
  both<T>(r, "nlt", type, [](V a, V b) { return ~yes(a < b); });
  both<T>(r, "tru", type, [](V, V) { return ~u32{0}; });
}

// Bits of the class mask, from bit 0: signaling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal,
// +inf.
u32 classify(u64 bits, int mantissa_bits, int exponent_bits) {
  const u64 mantissa = bits & ((u64{1} << mantissa_bits) - 1);
  const u64 exponent = bits >> mantissa_bits & ((u64{1} << exponent_bits) - 1);
  const bool negative = (bits >> (mantissa_bits + exponent_bits) & 1) != 0;
  const u64 top = (u64{1} << exponent_bits) - 1;
  int index;
  if (exponent == top && mantissa != 0) return (mantissa >> (mantissa_bits - 1) & 1) != 0 ? 2 : 1;
  if (exponent == top) {
    index = negative ? 2 : 9;
  } else if (exponent != 0) {
    index = negative ? 3 : 8;
  } else if (mantissa != 0) {
    index = negative ? 4 : 7;
  } else {
    index = negative ? 5 : 6;
  }
  return 1u << index;
}

}  // namespace

void register_compare(Registry& r) {
  integers<Ty::i16>(r, "i16");
  integers<Ty::u16>(r, "u16");
  integers<Ty::i32>(r, "i32");
  integers<Ty::u32>(r, "u32");
  integers<Ty::i64>(r, "i64");
  integers<Ty::u64>(r, "u64");
  floats<Ty::f16>(r, "f16");
  floats<Ty::f32>(r, "f32");
  floats<Ty::f64>(r, "f64");
  // Source modifiers apply before the class is taken: they only flip or clear the sign bit.
  auto class32 = [](float a, u32 b) {
    u32 bits;
    std::memcpy(&bits, &a, 4);
    return yes((classify(bits, 23, 8) & b) != 0);
  };
  r["v_cmp_class_f32"] = comparison<Ty::f32, Ty::u32>(class32, 0);
  r["v_cmpx_class_f32"] = comparison<Ty::f32, Ty::u32>(class32, kWritesExec);
  // On bits: widening would turn denormals into normal numbers and quiet a signaling NaN.
  auto class16 = [](uint16_t a, u32 b) { return yes((classify(a, 10, 5) & b) != 0); };
  for (uint16_t flags : {uint16_t{0}, uint16_t{kWritesExec}}) {
    Entry e = comparison<Ty::b16, Ty::u32>(class16, flags);
    e.src[0] = Ty::f16;
    r[flags == 0 ? "v_cmp_class_f16" : "v_cmpx_class_f16"] = e;
  }
  auto class64 = [](double a, u32 b) {
    u64 bits;
    std::memcpy(&bits, &a, 8);
    return yes((classify(bits, 52, 11) & b) != 0);
  };
  r["v_cmp_class_f64"] = comparison<Ty::f64, Ty::u32>(class64, 0);
  r["v_cmpx_class_f64"] = comparison<Ty::f64, Ty::u32>(class64, kWritesExec);
}

}  // namespace gfx950::exec
