// v_cvt_scalef32_*: conversions from and to fp4, fp8 and bf8 with a power-of-two scale, the exponent field of an f32.
#include <string>

#include "../numeric/formats.h"
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using decode::Parsed;

enum class Wide { f32, f16, bf16 };

double scale_of(u32 bits) { return numeric::e8m0_to_f32(numeric::e8m0_from_f32(numeric::float_of(bits))); }

u32 narrow(Wide wide, float x) {
  if (wide == Wide::f32) return numeric::bits_of(x);
  return numeric::from_f32(
      wide == Wide::f16 ? numeric::f16 : numeric::bf16, x, numeric::Rounding::nearest_even,
      saturate_small_floats && wide == Wide::f16 ? numeric::Overflow::saturate_finite : numeric::Overflow::to_infinity);
}

// The `count` elements at in.offset bits of source 0, times the scale: f32 into consecutive registers, halves into one.
template <const numeric::Format& Format, Wide W, int Count>
void run_unpack(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[2 * kLanes];
  constexpr int kBits = Format.bits();
  constexpr u32 kMask = (1u << kBits) - 1;
  for (int i = 0; i < kLanes; ++i) {
    const u32 packed = sources.row[0][i] >> in.offset;
    const double scale = scale_of(sources.row[1][i]);
    u32 element[2] = {};
    for (int k = 0; k < Count; ++k) {
      // A few bits times a power of two: exact in double, so this is the only rounding but the last one's.
      element[k] = narrow(W, static_cast<float>(numeric::to_f32(Format, packed >> (k * kBits) & kMask) * scale));
    }
    if (W == Wide::f32) {
      out[i] = element[0];
      out[kLanes + i] = element[1];
    } else {
      out[i] = element[0] | element[1] << 16;
    }
  }
  finish_result(w, in, out, sources.enabled);
}

// Two values over the scale, rounded, into the byte (fp4) or word (fp8, bf8) at in.offset bits of the destination. fp4
// has nothing beyond its largest number; the others go there if MODE.FP16_OVFL says so.
template <const numeric::Format& Format, Wide W>
void run_pack(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[kLanes];
  const u32* old = w.v[in.dst];
  constexpr int kBits = Format.bits();
  constexpr u32 kMask = (1u << 2 * kBits) - 1;
  const numeric::Overflow overflow =
      kBits == 4 || saturate_small_floats ? numeric::Overflow::saturate : numeric::Overflow::to_infinity;
  for (int i = 0; i < kLanes; ++i) {
    float x[2];
    for (int k = 0; k < 2; ++k) {
      if (W == Wide::f32) {
        x[k] = numeric::float_of(sources.row[k][i]);
      } else {
        x[k] = numeric::to_f32(W == Wide::f16 ? numeric::f16 : numeric::bf16, sources.row[0][i] >> (16 * k) & 0xffff);
      }
    }
    const double scale = scale_of(sources.row[W == Wide::f32 ? 2 : 1][i]);
    u32 code = 0;
    for (int k = 0; k < 2; ++k) {
      const float scaled = static_cast<float>(x[k] / scale);
      code |= numeric::from_f32(Format, scaled, numeric::Rounding::nearest_even, overflow) << (kBits * k);
    }
    out[i] = (old[i] & ~(kMask << in.offset)) | code << in.offset;
  }
  finish_result(w, in, out, sources.enabled);
}

// op_sel as printed: [source 0, source 1, (source 2,) destination]. Taken out of `p`; entry.value says what it selects.
enum Select : int32_t { kSourceByte = 1, kSourceWord = 2, kResultByte = 3, kResultWord = 4 };

void build_scaled(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  Parsed plain = p;
  auto found = plain.modifiers.find("op_sel");
  std::vector<int64_t> bits(4, 0);
  if (found != plain.modifiers.end()) {
    for (size_t k = 0; k < found->second.size() && k < 4; ++k) bits[k] = found->second[k];
    // The destination's bit is always printed last.
    if (found->second.size() == 3) {
      bits[3] = bits[2];
      bits[2] = 0;
    }
    plain.modifiers.erase(found);
  }
  const bool source = bits[0] != 0 || bits[1] != 0, result = bits[2] != 0 || bits[3] != 0;
  const bool selects_result = e.value == kResultByte || e.value == kResultWord;
  if (selects_result ? source || (e.value == kResultWord && bits[2] != 0)
                     : result || (e.value == kSourceWord && bits[1] != 0)) {
    Builder::refuse("op_sel");
  }
  build_valu(b, plain, e, in);
  if (in.clamp != 0 || in.omod != 0) Builder::refuse("result modifier");
  if (e.value == kSourceByte) in.offset = static_cast<int32_t>(8 * (bits[0] + 2 * bits[1]));
  if (e.value == kSourceWord) in.offset = static_cast<int32_t>(16 * bits[0]);
  if (e.value == kResultByte) in.offset = static_cast<int32_t>(8 * (bits[2] + 2 * bits[3]));
  if (e.value == kResultWord) in.offset = static_cast<int32_t>(16 * bits[3]);
  in.fn = e.fast;
}

Entry scaled(Handler handler, Ty dst, Ty first, Ty second, Ty third, int32_t select) {
  Entry e;
  e.build = build_scaled;
  e.fast = handler;
  e.dst = dst;
  e.src[0] = first;
  e.src[1] = second;
  e.src[2] = third;
  e.nsrc = third == Ty::none ? 2 : 3;
  e.value = select;
  return e;
}

template <const numeric::Format& Format>
void unpack(Registry& r, const std::string& name, int32_t select) {
  const std::string prefix = "v_cvt_scalef32_pk_";
  r[prefix + "f32_" + name] = scaled(run_unpack<Format, Wide::f32, 2>, Ty::b64, Ty::b32, Ty::f32, Ty::none, select);
  r[prefix + "f16_" + name] = scaled(run_unpack<Format, Wide::f16, 2>, Ty::b32, Ty::b32, Ty::f32, Ty::none, select);
  r[prefix + "bf16_" + name] = scaled(run_unpack<Format, Wide::bf16, 2>, Ty::b32, Ty::b32, Ty::f32, Ty::none, select);
}

template <const numeric::Format& Format>
void pack(Registry& r, const std::string& name, int32_t select) {
  const std::string prefix = "v_cvt_scalef32_pk_" + name;
  r[prefix + "_f32"] = scaled(run_pack<Format, Wide::f32>, Ty::b32, Ty::f32, Ty::f32, Ty::f32, select);
  r[prefix + "_f16"] = scaled(run_pack<Format, Wide::f16>, Ty::b32, Ty::b32, Ty::f32, Ty::none, select);
  r[prefix + "_bf16"] = scaled(run_pack<Format, Wide::bf16>, Ty::b32, Ty::b32, Ty::f32, Ty::none, select);
}

}  // namespace

void register_convert_scaled(Registry& r) {
  unpack<numeric::fp4>(r, "fp4", kSourceByte);
  unpack<numeric::fp8>(r, "fp8", kSourceWord);
  unpack<numeric::bf8>(r, "bf8", kSourceWord);
  r["v_cvt_scalef32_f32_fp8"] =
      scaled(run_unpack<numeric::fp8, Wide::f32, 1>, Ty::b32, Ty::b32, Ty::f32, Ty::none, kSourceByte);
  r["v_cvt_scalef32_f32_bf8"] =
      scaled(run_unpack<numeric::bf8, Wide::f32, 1>, Ty::b32, Ty::b32, Ty::f32, Ty::none, kSourceByte);
  pack<numeric::fp4>(r, "fp4", kResultByte);
  pack<numeric::fp8>(r, "fp8", kResultWord);
  pack<numeric::bf8>(r, "bf8", kResultWord);
}

}  // namespace gfx950::exec
