// Minimum and maximum of floats, on their bit patterns.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gfx950::exec {

// IEEE mode: a number beats a quiet NaN, a signaling NaN beats both (as a quiet one); -0 is below +0. On bit patterns,
// as signed integers whose order is that of the floats.
template <class U, int Fraction>
struct NumberOrder {
  using S = typename std::make_signed<U>::type;
  static constexpr int kSign = static_cast<int>(sizeof(U) * 8 - 1);
  static constexpr U kInfinity = static_cast<U>(((U{1} << (kSign - Fraction)) - 1) << Fraction);
  static constexpr U kQuiet = static_cast<U>(U{1} << (Fraction - 1));
  static constexpr U kMagnitude = static_cast<U>((U{1} << kSign) - 1);

  static S key(U x) {
    const S s = static_cast<S>(x);
    return static_cast<S>(s ^ static_cast<S>(static_cast<U>(s >> kSign) & kMagnitude));
  }
  // Masks, all ones or zero: without branches the loops over lanes become vector code.
  static U mask(bool condition) { return static_cast<U>(-static_cast<S>(condition)); }
  static U nan_mask(U x) { return mask(static_cast<S>(x & kMagnitude) > static_cast<S>(kInfinity)); }
  static bool is_nan(U x) { return static_cast<U>(x & kMagnitude) > kInfinity; }
  static U select(U m, U a, U b) { return static_cast<U>((a & m) | (b & static_cast<U>(~m))); }
  static U pick(U a, U b, U first) {
    const U nan_a = nan_mask(a), nan_b = nan_mask(b);
    const U signaling_a = static_cast<U>(nan_a & mask((a & kQuiet) == 0));
    const U signaling_b = static_cast<U>(nan_b & mask((b & kQuiet) == 0));
    const U number = select(nan_a, b, select(nan_b, a, select(first, a, b)));
    return select(signaling_a, static_cast<U>(a | kQuiet), select(signaling_b, static_cast<U>(b | kQuiet), number));
  }
  static U max(U a, U b) { return pick(a, b, mask(key(a) >= key(b))); }
  static U min(U a, U b) { return pick(a, b, mask(key(a) <= key(b))); }
  // The first NaN among the three, quiet, else `other`.
  static U nan_of(U a, U b, U c, U other) {
    const U nan = is_nan(a) ? a : is_nan(b) ? b : c;
    return is_nan(nan) ? static_cast<U>(nan | kQuiet) : other;
  }
  static U median(U a, U b, U c) {
    if (is_nan(a) || is_nan(b) || is_nan(c)) return min(min(a, b), c);
    return max(min(a, b), min(max(a, b), c));
  }
};

}  // namespace gfx950::exec
