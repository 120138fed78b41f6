// Conversions between number formats. The formats themselves are numeric/'s.
#include <cmath>

#include "../numeric/formats.h"
#include "../numeric/lanes.h"
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;

// Out of range saturates, NaN gives 0.
inline u32 saturate_u32(float x) {
  const float t = std::trunc(x);
  // In two signed halves: there is no vector conversion to unsigned.
  const bool upper = t >= 2147483648.0f;
  const float lowered = upper ? t - 2147483648.0f : t;
  const u32 inside = static_cast<u32>(static_cast<i32>(lowered < 2147483648.0f && lowered >= 0.0f ? lowered : 0.0f));
  return t >= 4294967296.0f ? ~u32{0} : inside + (upper ? 0x80000000u : 0);
}
inline i32 saturate_i32(float x) {
  const float t = std::trunc(x);
  const i32 inside = static_cast<i32>(t < 2147483648.0f && t >= -2147483648.0f ? t : 0.0f);
  return t >= 2147483648.0f ? INT32_MAX : t < -2147483648.0f ? INT32_MIN : inside;
}
inline u32 saturate_u32(double x) {
  const double t = std::trunc(x);
  return t >= 4294967295.0 ? ~u32{0} : t > 0 ? static_cast<u32>(static_cast<int64_t>(t)) : 0;
}
inline i32 saturate_i32(double x) {
  const double t = std::trunc(x);
  return t >= 2147483647.0 ? INT32_MAX : t <= -2147483648.0 ? INT32_MIN : t == t ? static_cast<i32>(t) : 0;
}
inline i32 clamp_integer(float x, float low, float high) {
  const float t = std::trunc(x);
  return static_cast<i32>(t > low ? (t < high ? t : high) : t == t ? low : 0.0f);
}

void register_single(Registry& r) {
  r["v_cvt_f32_i32"] = lane_op<Ty::f32, Ty::i32>([](i32 a) { return static_cast<float>(a); });
  r["v_cvt_f32_u32"] = lane_op<Ty::f32, Ty::u32>([](u32 a) { return static_cast<float>(static_cast<double>(a)); });
  r["v_cvt_u32_f32"] = lane_op<Ty::u32, Ty::f32>([](float a) { return saturate_u32(a); });
  r["v_cvt_i32_f32"] = lane_op<Ty::i32, Ty::f32>([](float a) { return saturate_i32(a); });
  r["v_cvt_rpi_i32_f32"] = lane_op<Ty::i32, Ty::f32>([](float a) { return saturate_i32(std::floor(double(a) + 0.5)); });
  r["v_cvt_flr_i32_f32"] = lane_op<Ty::i32, Ty::f32>([](float a) { return saturate_i32(std::floor(a)); });
  r["v_cvt_f16_f32"] = lane_op<Ty::f16, Ty::f32>([](float a) { return a; });
  r["v_cvt_f32_f16"] = lane_op<Ty::f32, Ty::f16>([](float a) { return a; });
  r["v_cvt_f64_f32"] = lane_op<Ty::f64, Ty::f32>([](float a) { return static_cast<double>(a); });
  r["v_cvt_f32_f64"] = lane_op<Ty::f32, Ty::f64>([](double a) { return static_cast<float>(a); });
  r["v_cvt_f64_i32"] = lane_op<Ty::f64, Ty::i32>([](i32 a) { return static_cast<double>(a); });
  r["v_cvt_f64_u32"] = lane_op<Ty::f64, Ty::u32>([](u32 a) { return static_cast<double>(a); });
  r["v_cvt_i32_f64"] = lane_op<Ty::i32, Ty::f64>([](double a) { return saturate_i32(a); });
  r["v_cvt_u32_f64"] = lane_op<Ty::u32, Ty::f64>([](double a) { return saturate_u32(a); });
  r["v_cvt_f32_ubyte0"] =
      lane_op<Ty::f32, Ty::u32>([](u32 a) { return static_cast<float>(static_cast<i32>(a & 0xff)); });
  r["v_cvt_f32_ubyte1"] =
      lane_op<Ty::f32, Ty::u32>([](u32 a) { return static_cast<float>(static_cast<i32>(a >> 8 & 0xff)); });
  r["v_cvt_f32_ubyte2"] =
      lane_op<Ty::f32, Ty::u32>([](u32 a) { return static_cast<float>(static_cast<i32>(a >> 16 & 0xff)); });
  r["v_cvt_f32_ubyte3"] =
      lane_op<Ty::f32, Ty::u32>([](u32 a) { return static_cast<float>(static_cast<i32>(a >> 24)); });
  r["v_cvt_f16_u16"] = lane_op<Ty::f16, Ty::u16>([](uint16_t a) { return static_cast<float>(a); });
  r["v_cvt_f16_i16"] = lane_op<Ty::f16, Ty::i16>([](int16_t a) { return static_cast<float>(a); });
  r["v_cvt_u16_f16"] =
      lane_op<Ty::u16, Ty::f16>([](float a) { return static_cast<uint16_t>(clamp_integer(a, 0.0f, 65535.0f)); });
  r["v_cvt_i16_f16"] =
      lane_op<Ty::i16, Ty::f16>([](float a) { return static_cast<int16_t>(clamp_integer(a, -32768.0f, 32767.0f)); });
  r["v_cvt_f32_bf16"] = lane_op<Ty::f32, Ty::b16>([](uint16_t a) { return numeric::float_of(u32(a) << 16); });
}

struct PackBf16 {
  static constexpr int kSources = 2;
  static void lanes(u32* d, const u32* a, const u32* b, const u32*) { numeric::pack_bf16(a, b, d); }
};
template <int Rounding>
struct PackF16 {
  static constexpr int kSources = 2;
  static void lanes(u32* d, const u32* a, const u32* b, const u32*) {
    if (saturate_small_floats && Rounding == _MM_FROUND_TO_NEAREST_INT) {
      alignas(64) u32 half[2][kLanes];
      std::memcpy(half[0], a, sizeof half[0]);
      std::memcpy(half[1], b, sizeof half[1]);
      narrow_half(half[0]);
      narrow_half(half[1]);
      for (int i = 0; i < kLanes; ++i) d[i] = half[0][i] | half[1][i] << 16;
    } else {
      numeric::pack_f16<Rounding>(a, b, d);  // to zero, a finite number never becomes infinite
    }
  }
};

template <class O>
Entry pack_entry() {
  Entry e;
  e.build = build_valu;
  e.lanes = O::lanes;
  e.fast = run_plain<O, 1>;
  e.dst = Ty::b32;
  e.src[0] = e.src[1] = Ty::f32;
  e.nsrc = 2;
  return e;
}

numeric::Overflow overflow() {
  return saturate_small_floats ? numeric::Overflow::saturate : numeric::Overflow::to_infinity;
}
u32 to_small(const numeric::Format& format, float x) {
  return numeric::from_f32(format, x, numeric::Rounding::nearest_even, overflow());
}
u32 to_small_random(const numeric::Format& format, float x, u32 random) {
  return numeric::from_f32(format, x, numeric::Rounding::stochastic, overflow(), random);
}

void register_packs(Registry& r) {
  r["v_cvt_pk_bf16_f32"] = pack_entry<PackBf16>();
  r["v_cvt_pk_f16_f32"] = pack_entry<PackF16<_MM_FROUND_TO_NEAREST_INT>>();
  r["v_cvt_pkrtz_f16_f32"] = pack_entry<PackF16<_MM_FROUND_TO_ZERO>>();
  // Two results in one half of the destination, chosen by the last bit of op_sel.
  r["v_cvt_pk_fp8_f32"] = lane_op<Ty::b16, Ty::f32, Ty::f32>(
      [](float a, float b) {
        return static_cast<uint16_t>(to_small(numeric::fp8, a) | to_small(numeric::fp8, b) << 8);
      },
      kPreservesHigh);
  r["v_cvt_pk_bf8_f32"] = lane_op<Ty::b16, Ty::f32, Ty::f32>(
      [](float a, float b) {
        return static_cast<uint16_t>(to_small(numeric::bf8, a) | to_small(numeric::bf8, b) << 8);
      },
      kPreservesHigh);
  r["v_cvt_f32_fp8"] = lane_op<Ty::f32, Ty::b32>([](u32 a) { return numeric::to_f32(numeric::fp8, a & 0xff); });
  r["v_cvt_f32_bf8"] = lane_op<Ty::f32, Ty::b32>([](u32 a) { return numeric::to_f32(numeric::bf8, a & 0xff); });
  r["v_cvt_pk_i16_i32"] = lane_op<Ty::b32, Ty::i32, Ty::i32>([](i32 a, i32 b) {
    auto clamp = [](i32 x) { return x < -32768 ? -32768 : x > 32767 ? 32767 : x; };
    return (u32(clamp(a)) & 0xffff) | u32(clamp(b)) << 16;
  });
  r["v_cvt_pk_u16_u32"] = lane_op<Ty::b32, Ty::u32, Ty::u32>([](u32 a, u32 b) {
    auto clamp = [](u32 x) { return x > 0xffff ? 0xffffu : x; };
    return clamp(a) | clamp(b) << 16;
  });
}

// ---- stochastic rounding to a byte: op_sel's last two bits name the byte of the destination
// ---------------------------------

template <const numeric::Format& Format>
void run_sr(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[kLanes];
  const u32* old = w.v[in.dst];
  const int shift = 8 * in.offset;
  for (int i = 0; i < kLanes; ++i) {
    const u32 code = to_small_random(Format, numeric::float_of(sources.row[0][i]), sources.row[1][i]);
    out[i] = (old[i] & ~(0xffu << shift)) | code << shift;
  }
  finish_result(w, in, out, sources.enabled);
}

void build_sr(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  decode::Parsed copy = p;
  auto op_sel = copy.modifiers.find("op_sel");
  if (op_sel != copy.modifiers.end()) {
    if (op_sel->second.size() != 4 || op_sel->second[0] != 0 || op_sel->second[1] != 0) Builder::refuse("op_sel");
    in.offset = static_cast<int32_t>(op_sel->second[2] + 2 * op_sel->second[3]);
    copy.modifiers.erase(op_sel);
  }
  build_valu(b, copy, e, in);
  in.fn = e.fast;
}

// The same to 16 bits: the last bit of op_sel names the half.
template <const numeric::Format& Format>
void run_sr16(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[kLanes];
  const u32* old = w.v[in.dst];
  const int shift = 16 * in.offset;
  const bool saturate = saturate_small_floats && Format.bits() - Format.fraction_bits == 6;  // f16 alone
  const numeric::Overflow overflow = saturate ? numeric::Overflow::saturate_finite : numeric::Overflow::to_infinity;
  for (int i = 0; i < kLanes; ++i) {
    const u32 code = numeric::from_f32(Format, numeric::float_of(sources.row[0][i]), numeric::Rounding::stochastic,
                                       overflow, sources.row[1][i]);
    out[i] = (old[i] & ~(0xffffu << shift)) | code << shift;
  }
  finish_result(w, in, out, sources.enabled);
}

void build_sr16(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  decode::Parsed copy = p;
  auto op_sel = copy.modifiers.find("op_sel");
  if (op_sel != copy.modifiers.end()) {
    const std::vector<int64_t>& bits = op_sel->second;
    if (bits.size() != 3 || bits[0] != 0 || bits[1] != 0) Builder::refuse("op_sel");
    in.offset = static_cast<int32_t>(bits[2]);
    copy.modifiers.erase(op_sel);
  }
  build_valu(b, copy, e, in);
  if (in.clamp != 0 || in.omod != 0) Builder::refuse("result modifier");
  in.fn = e.fast;
}

// ---- bytes of a register to f32 pairs: v_cvt_pk_f32_fp8, word chosen by op_sel or SDWA
// ---------------------------------------

template <const numeric::Format& Format>
void run_unpack2(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[2 * kLanes];
  const int shift = 16 * in.offset;
  for (int i = 0; i < kLanes; ++i) {
    const u32 x = sources.row[0][i] >> shift;
    out[i] = numeric::bits_of(numeric::to_f32(Format, x & 0xff));
    out[kLanes + i] = numeric::bits_of(numeric::to_f32(Format, x >> 8 & 0xff));
  }
  finish_result(w, in, out, sources.enabled);
}

void build_unpack2(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  decode::Parsed copy = p;
  auto op_sel = copy.modifiers.find("op_sel");
  if (op_sel != copy.modifiers.end()) {
    in.offset = op_sel->second.empty() ? 0 : static_cast<int32_t>(op_sel->second[0]);
    for (size_t k = 1; k < op_sel->second.size(); ++k) {
      if (op_sel->second[k] != 0) Builder::refuse("op_sel");
    }
    copy.modifiers.erase(op_sel);
  }
  build_valu(b, copy, e, in);
  in.fn = e.fast;
}

// v_cvt_f32_fp8 in its VOP3 form names a byte by op_sel's first two bits.
template <const numeric::Format& Format>
void run_unpack1(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    out[i] = numeric::bits_of(numeric::to_f32(Format, sources.row[0][i] >> (8 * in.offset) & 0xff));
  }
  finish_result(w, in, out, sources.enabled);
}

void build_unpack1(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  decode::Parsed copy = p;
  auto op_sel = copy.modifiers.find("op_sel");
  if (op_sel != copy.modifiers.end()) {
    if (op_sel->second.size() < 2) Builder::refuse("op_sel");
    in.offset = static_cast<int32_t>(op_sel->second[0] + 2 * op_sel->second[1]);
    copy.modifiers.erase(op_sel);
  }
  build_valu(b, copy, e, in);
  in.fn = e.fast;
}

void register_bytes(Registry& r) {
  Entry e = lane_op<Ty::b32, Ty::f32, Ty::u32>([](float, u32) { return u32{0}; });
  e.build = build_sr;
  e.fast = run_sr<numeric::fp8>;
  r["v_cvt_sr_fp8_f32"] = e;
  e.fast = run_sr<numeric::bf8>;
  r["v_cvt_sr_bf8_f32"] = e;
  e.build = build_sr16;
  e.fast = run_sr16<numeric::f16>;
  r["v_cvt_sr_f16_f32"] = e;
  e.fast = run_sr16<numeric::bf16>;
  r["v_cvt_sr_bf16_f32"] = e;
  e = lane_op<Ty::b64, Ty::b32>([](u32) { return u64{0}; });
  e.build = build_unpack2;
  e.fast = run_unpack2<numeric::fp8>;
  r["v_cvt_pk_f32_fp8"] = e;
  e.fast = run_unpack2<numeric::bf8>;
  r["v_cvt_pk_f32_bf8"] = e;
  r["v_cvt_f32_fp8"].build = r["v_cvt_f32_bf8"].build = build_unpack1;
  r["v_cvt_f32_fp8"].fast = run_unpack1<numeric::fp8>;
  r["v_cvt_f32_bf8"].fast = run_unpack1<numeric::bf8>;
}

}  // namespace

void register_convert(Registry& r) {
  register_single(r);
  register_packs(r);
  register_bytes(r);
}

}  // namespace gfx950::exec
