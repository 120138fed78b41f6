// VOP3P: two 16-bit operations, or two f32 operations, per lane; and the mixed-precision multiply-add.
#include <cmath>

#include "number_order.h"
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using decode::Parsed;

uint8_t bits_of(const Parsed& p, const char* name, int count, uint8_t otherwise) {
  auto found = p.modifiers.find(name);
  if (found == p.modifiers.end()) return otherwise;
  if (static_cast<int>(found->second.size()) != count) Builder::refuse(std::string(name) + " of another length");
  uint8_t bits = 0;
  for (int k = 0; k < count; ++k) bits |= static_cast<uint8_t>((found->second[k] & 1) << k);
  return bits;
}

void build_packed(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1u + e.nsrc);
  b.allow_modifiers(p, {"op_sel", "op_sel_hi", "neg_lo", "neg_hi", "clamp"});
  in.dst_words = static_cast<uint8_t>(words_of(e.dst));
  in.dst = b.vector_destination(p.operands[0], in.dst_words);
  in.klass = Klass::valu;
  in.cost = e.cost;
  in.nsrc = e.nsrc;
  in.op_sel = bits_of(p, "op_sel", e.nsrc, 0);
  in.op_sel_hi = bits_of(p, "op_sel_hi", e.nsrc, static_cast<uint8_t>((1 << e.nsrc) - 1));
  in.neg_lo = bits_of(p, "neg_lo", e.nsrc, 0);
  in.neg_hi = bits_of(p, "neg_hi", e.nsrc, 0);
  if (p.has("clamp")) {
    if (!is_float(e.dst)) Builder::refuse("clamp on an integer result");
    in.clamp = 1;
  }
  for (int k = 0; k < e.nsrc; ++k) {
    const decode::ParsedOperand& o = p.operands[1 + k];
    if (o.neg || o.abs) Builder::refuse("neg or abs on a packed operand");
    b.vector_source(in, k, o, e.src[k]);
    // The upper half of a 64-bit constant is not documented for packed f32; the compiler asks for the lower one.
    if (e.src[k] == Ty::pkf32 && in.src[k].kind == Operand::Kind::constant && in.src[k].value != 0 &&
        ((in.op_sel | in.op_sel_hi) >> k & 1) != 0) {
      Builder::refuse("the upper half of a constant in a packed f32 operation");
    }
  }
  if ((in.neg_lo | in.neg_hi) != 0 && !is_float(e.src[0])) Builder::refuse("neg on packed integers");
  in.fn = e.fast;
}

// ---- packed f32
// -------------------------------------------------------------------------------------------------------

template <class F, int N>
void run_pkf32(Wave& w, const Inst& in) {
  alignas(64) u32 buffer[N][2 * kLanes];
  const float *lo[3] = {}, *hi[3] = {};
  u32 flip_lo[3] = {}, flip_hi[3] = {};
  for (int k = 0; k < N; ++k) {
    const u32* row = source(w, in, k, buffer[k]);
    lo[k] = reinterpret_cast<const float*>(row + ((in.op_sel >> k & 1) != 0 ? kLanes : 0));
    hi[k] = reinterpret_cast<const float*>(row + ((in.op_sel_hi >> k & 1) != 0 ? kLanes : 0));
    flip_lo[k] = (in.neg_lo >> k & 1) != 0 ? 0x80000000u : 0;
    flip_hi[k] = (in.neg_hi >> k & 1) != 0 ? 0x80000000u : 0;
  }
  alignas(64) u32 out[2 * kLanes];
  // Straight to the registers when nothing is masked: lane l depends on lane l alone.
  u32* d = w.exec_full && in.clamp == 0 ? w.v[in.dst] : out;
  const F& f = stateless<F>();
  if ((in.neg_lo | in.neg_hi) == 0) {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) {
      float x, y;
      if constexpr (N == 2) {
        x = f(lo[0][i], lo[1][i]);
        y = f(hi[0][i], hi[1][i]);
      } else {
        x = f(lo[0][i], lo[1][i], lo[2][i]);
        y = f(hi[0][i], hi[1][i], hi[2][i]);
      }
      Lane<Ty::f32>::store(d, i, x);
      Lane<Ty::f32>::store(d + kLanes, i, y);
    }
  } else {
    auto flipped = [](const float* p, int i, u32 flip) {
      u32 bits;
      std::memcpy(&bits, p + i, 4);
      bits ^= flip;
      float x;
      std::memcpy(&x, &bits, 4);
      return x;
    };
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) {
      float x, y;
      if constexpr (N == 2) {
        x = f(flipped(lo[0], i, flip_lo[0]), flipped(lo[1], i, flip_lo[1]));
        y = f(flipped(hi[0], i, flip_hi[0]), flipped(hi[1], i, flip_hi[1]));
      } else {
        x = f(flipped(lo[0], i, flip_lo[0]), flipped(lo[1], i, flip_lo[1]), flipped(lo[2], i, flip_lo[2]));
        y = f(flipped(hi[0], i, flip_hi[0]), flipped(hi[1], i, flip_hi[1]), flipped(hi[2], i, flip_hi[2]));
      }
      Lane<Ty::f32>::store(d, i, x);
      Lane<Ty::f32>::store(d + kLanes, i, y);
    }
  }
  if (in.clamp != 0) {
    for (int i = 0; i < 2 * kLanes; ++i) {
      const float x = Lane<Ty::f32>::load(out, i);
      Lane<Ty::f32>::store(out, i, x > 0 ? (x < 1 ? x : 1.0f) : 0.0f);
    }
  }
  if (d == out) write_rows(w, w.v[in.dst], out, 2);
}

template <int N, class F>
Entry packed_f32(F) {
  Entry e;
  e.build = build_packed;
  e.fast = run_pkf32<F, N>;
  e.dst = e.src[0] = e.src[1] = e.src[2] = Ty::pkf32;
  e.nsrc = N;
  return e;
}

// v_pk_mov_b32: low result from source 0, high result from source 1, each by its own op_sel bit.
void run_pk_mov(Wave& w, const Inst& in) {
  alignas(64) u32 buffer[2][2 * kLanes];
  const u32* a = source(w, in, 0, buffer[0]);
  const u32* b = source(w, in, 1, buffer[1]);
  alignas(64) u32 out[2 * kLanes];
  std::memcpy(out, a + ((in.op_sel & 1) != 0 ? kLanes : 0), sizeof(Row));
  std::memcpy(out + kLanes, b + ((in.op_sel >> 1 & 1) != 0 ? kLanes : 0), sizeof(Row));
  write_rows(w, w.v[in.dst], out, 2);
}

// ---- packed 16 bits
// ---------------------------------------------------------------------------------------------------

// The half of source k that feeds one result, as the element type's row.
template <Ty T>
void half_row(const Inst& in, int k, const u32* row, bool upper_result, u32* out) {
  const u32 shift = ((upper_result ? in.op_sel_hi : in.op_sel) >> k & 1) != 0 ? 16 : 0;
  const u32 flip = ((upper_result ? in.neg_hi : in.neg_lo) >> k & 1) != 0 ? 0x8000u : 0;
  for (int i = 0; i < kLanes; ++i) out[i] = (row[i] >> shift & 0xffffu) ^ flip;
}

template <class O, Ty T>
void run_pk16(Wave& w, const Inst& in) {
  alignas(64) u32 buffer[2 * kLanes];
  alignas(64) u32 operand[3][kLanes];
  alignas(64) u32 result[2][kLanes];
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < O::kSources; ++k) half_row<T>(in, k, source(w, in, k, buffer), half != 0, operand[k]);
    O::lanes(result[half], operand[0], operand[1], operand[2]);
  }
  if (in.clamp != 0) {
    for (auto& row : result) {
      alignas(64) u32 wide[kLanes];
      widen_half(row, wide);
      for (int i = 0; i < kLanes; ++i) {
        const float x = Lane<Ty::f32>::load(wide, i);
        Lane<Ty::f32>::store(row, i, x > 0 ? (x < 1 ? x : 1.0f) : 0.0f);
      }
      narrow_half(row);
    }
  }
  for (int i = 0; i < kLanes; ++i) result[0][i] = (result[0][i] & 0xffffu) | result[1][i] << 16;
  write_rows(w, w.v[in.dst], result[0], 1);
}

template <Ty T, int N, class F>
Entry packed16(F) {
  Entry e;
  e.build = build_packed;
  if constexpr (N == 2) {
    e.fast = run_pk16<Op<F, T, T, T>, T>;
  } else {
    e.fast = run_pk16<Op<F, T, T, T, T>, T>;
  }
  e.dst = e.src[0] = e.src[1] = e.src[2] = T == Ty::f16 ? Ty::pkf16 : Ty::pk16;
  e.nsrc = N;
  return e;
}

// ---- v_fma_mix: each source f32, or one half of its register as f16 (op_sel_hi says f16, op_sel which half)
// -----------------

template <int Result>  // 0: f32; 1: f16 into the low half; 2: into the high half
void run_mix(Wave& w, const Inst& in) {
  alignas(64) u32 buffer[3][2 * kLanes];
  alignas(64) u32 wide[3][kLanes];
  for (int k = 0; k < 3; ++k) {
    const u32* row = source(w, in, k, buffer[k]);
    const bool half = (in.op_sel_hi >> k & 1) != 0;
    const u32 shift = half && (in.op_sel >> k & 1) != 0 ? 16 : 0;
    for (int i = 0; i < kLanes; ++i) wide[k][i] = row[i] >> shift;
    if (half) {
      alignas(64) u32 narrow[kLanes];
      std::memcpy(narrow, wide[k], sizeof narrow);
      widen_half(narrow, wide[k]);
    }
    // abs and neg come after the widening; in this family neg_hi means abs.
    const u32 keep = in.src[k].abs ? 0x7fffffffu : ~u32{0}, flip = in.src[k].neg ? 0x80000000u : 0;
    for (int i = 0; i < kLanes; ++i) wide[k][i] = (wide[k][i] & keep) ^ flip;
  }
  alignas(64) u32 out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    float x =
        std::fma(Lane<Ty::f32>::load(wide[0], i), Lane<Ty::f32>::load(wide[1], i), Lane<Ty::f32>::load(wide[2], i));
    if (in.clamp != 0) x = x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
    Lane<Ty::f32>::store(out, i, x);
  }
  if (Result != 0) {
    narrow_half(out);
    const u32* d = w.v[in.dst];
    for (int i = 0; i < kLanes; ++i) {
      out[i] = Result == 1 ? (d[i] & 0xffff0000u) | out[i] : (d[i] & 0xffffu) | out[i] << 16;
    }
  }
  write_rows(w, w.v[in.dst], out, 1);
}

void build_mix(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 4);
  b.allow_modifiers(p, {"op_sel", "op_sel_hi", "clamp"});
  in.dst = b.vector_destination(p.operands[0], 1);
  in.klass = Klass::valu;
  in.nsrc = 3;
  in.op_sel = bits_of(p, "op_sel", 3, 0);
  in.op_sel_hi = bits_of(p, "op_sel_hi", 3, 0);
  in.clamp = p.has("clamp");
  for (int k = 0; k < 3; ++k) {
    const bool half = (in.op_sel_hi >> k & 1) != 0;
    b.vector_source(in, k, p.operands[1 + k], half ? Ty::pkf16 : Ty::f32);
  }
  in.fn = e.fast;
}

}  // namespace

void register_packed(Registry& r) {
  r["v_pk_add_f32"] = packed_f32<2>([](float a, float b) { return a + b; });
  r["v_pk_mul_f32"] = packed_f32<2>([](float a, float b) { return a * b; });
  r["v_pk_fma_f32"] = packed_f32<3>([](float a, float b, float c) { return std::fma(a, b, c); });
  Entry mov;
  mov.build = build_packed;
  mov.fast = run_pk_mov;
  mov.dst = mov.src[0] = mov.src[1] = Ty::pkf32;
  mov.nsrc = 2;
  r["v_pk_mov_b32"] = mov;

  r["v_pk_add_f16"] = packed16<Ty::f16, 2>([](float a, float b) { return a + b; });
  r["v_pk_mul_f16"] = packed16<Ty::f16, 2>([](float a, float b) { return a * b; });
  // On bit patterns, but with the modifiers and constants of f16.
  using Order = NumberOrder<uint16_t, 10>;
  auto as_half = [](Entry e) {
    e.dst = e.src[0] = e.src[1] = e.src[2] = Ty::pkf16;
    return e;
  };
  r["v_pk_max_f16"] = as_half(packed16<Ty::u16, 2>([](uint16_t a, uint16_t b) { return Order::max(a, b); }));
  r["v_pk_min_f16"] = as_half(packed16<Ty::u16, 2>([](uint16_t a, uint16_t b) { return Order::min(a, b); }));
  r["v_pk_fma_f16"] = packed16<Ty::f16, 3>([](float a, float b, float c) { return half_fma(a, b, c); });
  // A NaN beats a number; -0 is below +0.
  r["v_pk_maximum3_f16"] = as_half(packed16<Ty::u16, 3>(
      [](uint16_t a, uint16_t b, uint16_t c) { return Order::nan_of(a, b, c, Order::max(Order::max(a, b), c)); }));
  r["v_pk_minimum3_f16"] = as_half(packed16<Ty::u16, 3>(
      [](uint16_t a, uint16_t b, uint16_t c) { return Order::nan_of(a, b, c, Order::min(Order::min(a, b), c)); }));
  using u16 = uint16_t;
  using i16 = int16_t;
  r["v_pk_add_u16"] = packed16<Ty::u16, 2>([](u16 a, u16 b) { return u16(a + b); });
  r["v_pk_add_i16"] = r["v_pk_add_u16"];
  r["v_pk_sub_u16"] = packed16<Ty::u16, 2>([](u16 a, u16 b) { return u16(a - b); });
  r["v_pk_sub_i16"] = r["v_pk_sub_u16"];
  r["v_pk_mul_lo_u16"] = packed16<Ty::u16, 2>([](u16 a, u16 b) { return u16(u32(a) * b); });
  r["v_pk_mad_u16"] = packed16<Ty::u16, 3>([](u16 a, u16 b, u16 c) { return u16(u32(a) * b + c); });
  r["v_pk_mad_i16"] = r["v_pk_mad_u16"];
  r["v_pk_min_u16"] = packed16<Ty::u16, 2>([](u16 a, u16 b) { return a < b ? a : b; });
  r["v_pk_max_u16"] = packed16<Ty::u16, 2>([](u16 a, u16 b) { return a > b ? a : b; });
  r["v_pk_min_i16"] = packed16<Ty::i16, 2>([](i16 a, i16 b) { return a < b ? a : b; });
  r["v_pk_max_i16"] = packed16<Ty::i16, 2>([](i16 a, i16 b) { return a > b ? a : b; });
  r["v_pk_lshlrev_b16"] = packed16<Ty::u16, 2>([](u16 a, u16 b) { return u16(u32(b) << (a & 15)); });
  r["v_pk_lshrrev_b16"] = packed16<Ty::u16, 2>([](u16 a, u16 b) { return u16(b >> (a & 15)); });
  r["v_pk_ashrrev_i16"] = packed16<Ty::i16, 2>([](i16 a, i16 b) { return i16(b >> (a & 15)); });

  Entry mix;
  mix.build = build_mix;
  mix.fast = run_mix<0>;
  r["v_fma_mix_f32"] = mix;
  mix.fast = run_mix<1>;
  r["v_fma_mixlo_f16"] = mix;
  mix.fast = run_mix<2>;
  r["v_fma_mixhi_f16"] = mix;
}

}  // namespace gfx950::exec
