// Dot products of packed elements with an accumulator. Integers wrap. The float forms round after each addition, in the
// order of AMD's pseudocode; the products of 16-bit floats are exact in f32.
#include "../numeric/formats.h"
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using i32 = int32_t;

template <int Bits, bool Signed>
u32 element(u32 packed, int k) {
  const u32 low = packed >> (Bits * k) << (32 - Bits);
  return Signed ? static_cast<u32>(static_cast<i32>(low) >> (32 - Bits)) : low >> (32 - Bits);
}

template <int Bits, bool Signed>
u32 dot(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 32 / Bits; ++k) c += element<Bits, Signed>(a, k) * element<Bits, Signed>(b, k);
  return c;
}

template <const numeric::Format& Format>
float product(u32 a, u32 b, int half) {
  return numeric::to_f32(Format, a >> (16 * half) & 0xffff) * numeric::to_f32(Format, b >> (16 * half) & 0xffff);
}
float dot_f16(u32 a, u32 b, float c) { return c + product<numeric::f16>(a, b, 0) + product<numeric::f16>(a, b, 1); }
float dot_bf16(u32 a, u32 b, float c) { return product<numeric::bf16>(a, b, 0) + product<numeric::bf16>(a, b, 1) + c; }

// The VOP3P name takes the accumulator as third source, the VOP2 one ("c") its destination.
template <Ty T, class F>
void both(Registry& r, const char* wide, const char* short_form, F f) {
  r[wide] = lane_op<T, Ty::b32, Ty::b32, T>(f);
  if (short_form != nullptr) r[short_form] = lane_op<T, Ty::b32, Ty::b32, T>(f, kReadsDst);
}

}  // namespace

void register_dot(Registry& r) {
  both<Ty::u32>(r, "v_dot2_i32_i16", "v_dot2c_i32_i16", [](u32 a, u32 b, u32 c) { return dot<16, true>(a, b, c); });
  both<Ty::u32>(r, "v_dot2_u32_u16", nullptr, [](u32 a, u32 b, u32 c) { return dot<16, false>(a, b, c); });
  both<Ty::u32>(r, "v_dot4_i32_i8", "v_dot4c_i32_i8", [](u32 a, u32 b, u32 c) { return dot<8, true>(a, b, c); });
  both<Ty::u32>(r, "v_dot4_u32_u8", nullptr, [](u32 a, u32 b, u32 c) { return dot<8, false>(a, b, c); });
  both<Ty::u32>(r, "v_dot8_i32_i4", "v_dot8c_i32_i4", [](u32 a, u32 b, u32 c) { return dot<4, true>(a, b, c); });
  both<Ty::u32>(r, "v_dot8_u32_u4", nullptr, [](u32 a, u32 b, u32 c) { return dot<4, false>(a, b, c); });
  both<Ty::f32>(r, "v_dot2_f32_f16", "v_dot2c_f32_f16", [](u32 a, u32 b, float c) { return dot_f16(a, b, c); });
  both<Ty::f32>(r, "v_dot2_f32_bf16", "v_dot2c_f32_bf16", [](u32 a, u32 b, float c) { return dot_bf16(a, b, c); });
}

}  // namespace gfx950::exec
