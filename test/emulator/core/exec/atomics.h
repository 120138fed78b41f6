// Read-modify-write on memory that other host threads may touch.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../numeric/formats.h"

namespace gfx950::exec {

enum class Atomic : uint8_t {
  swap,
  cmpswap,
  add,
  sub,
  smin,
  umin,
  smax,
  umax,
  and_,
  or_,
  xor_,
  inc,
  dec,
  add_f32,
  add_f64,
  pk_add_f16,
  pk_add_bf16,
  min_f64,
  max_f64,
  min_f32,
  max_f32,
  rsub,
};

template <class U>
U combine(Atomic op, U old, U x, U compare) {
  using S = typename std::make_signed<U>::type;
  auto as_float = [](U bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  };
  auto as_double = [](U bits) {
    double f = 0;
    std::memcpy(&f, &bits, sizeof(U));
    return f;
  };
  auto bits = [](auto f) {
    U u = 0;
    std::memcpy(&u, &f, sizeof f <= sizeof u ? sizeof f : sizeof u);
    return u;
  };
  switch (op) {
    case Atomic::swap:
      return x;
    case Atomic::cmpswap:
      return old == compare ? x : old;
    case Atomic::add:
      return old + x;
    case Atomic::sub:
      return old - x;
    case Atomic::rsub:
      return x - old;
    case Atomic::smin:
      return static_cast<S>(old) < static_cast<S>(x) ? old : x;
    case Atomic::umin:
      return old < x ? old : x;
    case Atomic::smax:
      return static_cast<S>(old) > static_cast<S>(x) ? old : x;
    case Atomic::umax:
      return old > x ? old : x;
    case Atomic::and_:
      return old & x;
    case Atomic::or_:
      return old | x;
    case Atomic::xor_:
      return old ^ x;
    case Atomic::inc:
      return old >= x ? 0 : old + 1;
    case Atomic::dec:
      return old == 0 || old > x ? x : old - 1;
    case Atomic::add_f32:
      return bits(as_float(old) + as_float(x));
    case Atomic::min_f32:
      return as_float(x) < as_float(old) ? x : old;
    case Atomic::max_f32:
      return as_float(x) > as_float(old) ? x : old;
    case Atomic::add_f64:
      return bits(as_double(old) + as_double(x));
    case Atomic::min_f64:
      return as_double(x) < as_double(old) ? x : old;
    case Atomic::max_f64:
      return as_double(x) > as_double(old) ? x : old;
    case Atomic::pk_add_f16:
    case Atomic::pk_add_bf16: {
      const numeric::Format& format = op == Atomic::pk_add_f16 ? numeric::f16 : numeric::bf16;
      U result = 0;
      for (int half = 0; half < 2; ++half) {
        const uint32_t a = static_cast<uint32_t>(old >> (16 * half)) & 0xffff;
        const uint32_t b = static_cast<uint32_t>(x >> (16 * half)) & 0xffff;
        const float sum = numeric::to_f32(format, a) + numeric::to_f32(format, b);
        result |= static_cast<U>(
                      numeric::from_f32(format, sum, numeric::Rounding::nearest_even, numeric::Overflow::to_infinity))
                  << (16 * half);
      }
      return result;
    }
  }
  return old;
}

// Returns the value before.
template <class U>
U atomic_update(void* address, Atomic op, U x, U compare) {
  U* target = static_cast<U*>(address);
  U old = __atomic_load_n(target, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(target, &old, combine<U>(op, old, x, compare), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED)) {
  }
  return old;
}

// The atomics that global and buffer instructions share, by the part of their name behind "atomic_":
// calls add.template operator()<type, operation>(name) for each.
template <class Add>
void each_memory_atomic(const Add& add) {
#define INTEGER(op, name)                              \
  add.template operator()<uint32_t, Atomic::op>(name); \
  add.template operator()<uint64_t, Atomic::op>(name "_x2")
  INTEGER(swap, "swap");
  INTEGER(cmpswap, "cmpswap");
  INTEGER(add, "add");
  INTEGER(sub, "sub");
  INTEGER(smin, "smin");
  INTEGER(umin, "umin");
  INTEGER(smax, "smax");
  INTEGER(umax, "umax");
  INTEGER(and_, "and");
  INTEGER(or_, "or");
  INTEGER(xor_, "xor");
  INTEGER(inc, "inc");
  INTEGER(dec, "dec");
#undef INTEGER
  add.template operator()<uint32_t, Atomic::add_f32>("add_f32");
  add.template operator()<uint64_t, Atomic::add_f64>("add_f64");
  add.template operator()<uint64_t, Atomic::min_f64>("min_f64");
  add.template operator()<uint64_t, Atomic::max_f64>("max_f64");
  add.template operator()<uint32_t, Atomic::pk_add_f16>("pk_add_f16");
  add.template operator()<uint32_t, Atomic::pk_add_bf16>("pk_add_bf16");
}

}  // namespace gfx950::exec
