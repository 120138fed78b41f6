// v_cvt_scalef32_*: conversions from and to fp4, fp6, bf6, fp8 and bf8 with a power-of-two scale, the exponent field of
// an f32. The sr forms round stochastically: random bits are added below the last kept place, then the rest is cut.
// They take the top bits of their random word, as AMD's pseudocode of v_cvt_sr_fp8_f32 does; results below the smallest
// normal number, of which it says nothing, take as many more as are cut.
#include <cmath>
#include <limits>
#include <string>

#include "../numeric/formats.h"
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using decode::Parsed;

enum class Wide { f32, f16, bf16 };

// In double, whose denormals MODE does not flush: field 0 is 2^-127.
double scale_of(u32 bits) {
  const u32 field = numeric::e8m0_from_f32(numeric::float_of(bits));
  return field == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(field) - 127);
}

constexpr int bits_of(Wide wide) { return wide == Wide::f32 ? 32 : 16; }

float widen(Wide wide, u32 bits) {
  if (wide == Wide::f32) return numeric::float_of(bits);
  return numeric::to_f32(wide == Wide::f16 ? numeric::f16 : numeric::bf16, bits & 0xffff);
}

// What the sr forms make of their random word for the next element; v_prng_b32.
u32 next_random(u32 x) { return x << 1 ^ (x >> 31 != 0 ? 197u : 0u); }

// fp4, fp6 and bf6 have nothing beyond their largest number; fp8 and bf8 go there if MODE.FP16_OVFL says so.
template <const numeric::Format& Format>
u32 pack_one(float x, double scale, numeric::Rounding rounding, u32 random) {
  const numeric::Overflow overflow =
      Format.bits() < 8 || saturate_small_floats ? numeric::Overflow::saturate : numeric::Overflow::to_infinity;
  return numeric::from_f32(Format, static_cast<float>(x / scale), rounding, overflow, random);
}

u32 narrow(Wide wide, float x) {
  if (wide == Wide::f32) return numeric::bits_of(x);
  return numeric::from_f32(
      wide == Wide::f16 ? numeric::f16 : numeric::bf16, x, numeric::Rounding::nearest_even,
      saturate_small_floats && wide == Wide::f16 ? numeric::Overflow::saturate_finite : numeric::Overflow::to_infinity);
}

// The `count` elements at in.offset bits of source 0, times the scale: f32 into consecutive registers, two
// halves into one, a single half to in.offset2 bits of it.
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
    } else if (Count == 1) {
      out[i] = (w.v[in.dst][i] & ~(0xffffu << in.offset2)) | element[0] << in.offset2;
    } else {
      out[i] = element[0] | element[1] << 16;
    }
  }
  finish_result(w, in, out, sources.enabled);
}

// Count values over the scale, rounded, into the byte (fp4; one fp8 or bf8) or word (two) at in.offset bits of the
// destination. With random bits, source 1 is the random word and two values are one operand.
template <const numeric::Format& Format, Wide W, int Count, bool Random>
void run_pack(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) u32 out[kLanes];
  const u32* old = w.v[in.dst];
  const u32* scales = sources.row[in.nsrc - 1];
  constexpr u32 kMask = (1u << Count * Format.bits()) - 1;
  constexpr numeric::Rounding kRounding = Random ? numeric::Rounding::stochastic : numeric::Rounding::nearest_even;
  for (int i = 0; i < kLanes; ++i) {
    const double scale = scale_of(scales[i]);
    u32 random = Random ? sources.row[1][i] : 0, code = 0;
    for (int k = 0; k < Count; ++k) {
      u32 x;
      if (W != Wide::f32) {
        x = sources.row[0][i] >> (16 * k);
      } else {
        x = Random ? sources.row[0][k * kLanes + i] : sources.row[k][i];
      }
      code |= pack_one<Format>(widen(W, x), scale, kRounding, random) << (Format.bits() * k);
      random = next_random(random);
    }
    out[i] = (old[i] & ~(kMask << in.offset)) | code << in.offset;
  }
  finish_result(w, in, out, sources.enabled);
}

// ---- 32 elements of six bits, in six registers of a lane

constexpr int kBlock = 32, kSixBitWords = 6;
constexpr int words_of_block(Wide wide) { return kBlock * bits_of(wide) / 32; }

template <const numeric::Format& Format, Wide W>
void run_unpack_block(Wave& w, const Inst& in) {
  constexpr int kWords = words_of_block(W);
  alignas(64) u32 buffer[kLanes];
  alignas(64) u32 out[kWords * kLanes] = {};
  const u32* packed = w.v[in.src[0].reg];
  const u32* scales = source(w, in, 1, buffer);
  for (int i = 0; i < kLanes; ++i) {
    const double scale = scale_of(scales[i]);
    for (int k = 0; k < kBlock; ++k) {
      const int word = 6 * k / 32, shift = 6 * k % 32;
      uint64_t bits = packed[word * kLanes + i];
      if (shift > 26) bits |= static_cast<uint64_t>(packed[(word + 1) * kLanes + i]) << 32;
      const u32 code = static_cast<u32>(bits >> shift) & 63;
      const u32 x = narrow(W, static_cast<float>(numeric::to_f32(Format, code) * scale));
      out[(k * bits_of(W) / 32) * kLanes + i] |= x << (k * bits_of(W) % 32);
    }
  }
  write_rows(w, w.v[in.dst], out, kWords);
}

// Blocks is 1, or 2 for two operands of half as many elements, which alternate in the result.
template <const numeric::Format& Format, Wide W, int Blocks, bool Random>
void run_pack_block(Wave& w, const Inst& in) {
  alignas(64) u32 buffer[2][kLanes];
  alignas(64) u32 out[kSixBitWords * kLanes] = {};
  const u32* randoms = Random ? source(w, in, Blocks, buffer[0]) : nullptr;
  const u32* scales = source(w, in, in.nsrc - 1, buffer[1]);
  constexpr numeric::Rounding kRounding = Random ? numeric::Rounding::stochastic : numeric::Rounding::nearest_even;
  for (int i = 0; i < kLanes; ++i) {
    const double scale = scale_of(scales[i]);
    u32 random = Random ? randoms[i] : 0;
    for (int k = 0; k < kBlock; ++k) {
      const u32* block = w.v[in.src[k % Blocks].reg];
      const int from = k / Blocks;
      const u32 x = block[(from * bits_of(W) / 32) * kLanes + i] >> (from * bits_of(W) % 32);
      const u32 code = pack_one<Format>(widen(W, x), scale, kRounding, random);
      random = next_random(random);
      const int word = 6 * k / 32, shift = 6 * k % 32;
      out[word * kLanes + i] |= code << shift;
      if (shift > 26) out[(word + 1) * kLanes + i] |= code >> (32 - shift);
    }
  }
  write_rows(w, w.v[in.dst], out, kSixBitWords);
}

// Blocks sources of Words registers, then the random word if there is one, then the scale. No modifiers.
template <int Results, int Words, int Blocks>
void build_block(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1u + e.nsrc);
  b.allow_modifiers(p, {});
  in.klass = Klass::valu;
  in.nsrc = e.nsrc;
  in.dst = b.vector_destination(p.operands[0], Results);
  for (int k = 0; k < e.nsrc; ++k) {
    const decode::ParsedOperand& o = p.operands[1 + static_cast<size_t>(k)];
    if (o.neg || o.abs) Builder::refuse("neg or abs on an operand of 32 elements");
    if (k < Blocks) {
      in.src[k].kind = Operand::Kind::vector;
      in.src[k].reg = b.vector_destination(o, Words);
    } else {
      b.vector_source(in, k, o, k == e.nsrc - 1 ? Ty::f32 : Ty::u32);
    }
  }
  in.fn = e.fast;
}

// op_sel as printed: [source 0, source 1, (source 2,) destination]. Taken out of `p`; entry.value says what it selects.
enum Select : int32_t { kSourceByte = 1, kSourceWord, kResultByte, kResultWord, kSourceByteResultWord };

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
  const bool selects_source = !selects_result;
  if ((source && !selects_source) || (result && !selects_result && e.value != kSourceByteResultWord) ||
      (e.value == kSourceWord && bits[1] != 0) ||
      ((e.value == kResultWord || e.value == kSourceByteResultWord) && bits[2] != 0)) {
    Builder::refuse("op_sel");
  }
  build_valu(b, plain, e, in);
  if (e.src[0] == Ty::b64 && in.src[0].kind != Operand::Kind::vector)
    Builder::refuse("two values that are no register");
  if (in.clamp != 0 || in.omod != 0) Builder::refuse("result modifier");
  if (e.value == kSourceByteResultWord) in.offset2 = static_cast<int32_t>(16 * bits[3]);
  if (e.value == kSourceByte || e.value == kSourceByteResultWord)
    in.offset = static_cast<int32_t>(8 * (bits[0] + 2 * bits[1]));
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
  r[prefix + "_f32"] = scaled(run_pack<Format, Wide::f32, 2, false>, Ty::b32, Ty::f32, Ty::f32, Ty::f32, select);
  r[prefix + "_f16"] = scaled(run_pack<Format, Wide::f16, 2, false>, Ty::b32, Ty::b32, Ty::f32, Ty::none, select);
  r[prefix + "_bf16"] = scaled(run_pack<Format, Wide::bf16, 2, false>, Ty::b32, Ty::b32, Ty::f32, Ty::none, select);
}

// v_cvt_scalef32_f16_fp8, v_cvt_scalef32_sr_fp8_*
template <const numeric::Format& Format>
void single(Registry& r, const std::string& name) {
  const std::string prefix = "v_cvt_scalef32_";
  r[prefix + "f32_" + name] =
      scaled(run_unpack<Format, Wide::f32, 1>, Ty::b32, Ty::b32, Ty::f32, Ty::none, kSourceByte);
  r[prefix + "f16_" + name] =
      scaled(run_unpack<Format, Wide::f16, 1>, Ty::b32, Ty::b32, Ty::f32, Ty::none, kSourceByteResultWord);
  const std::string sr = prefix + "sr_" + name;
  r[sr + "_f32"] = scaled(run_pack<Format, Wide::f32, 1, true>, Ty::b32, Ty::f32, Ty::u32, Ty::f32, kResultByte);
  r[sr + "_f16"] = scaled(run_pack<Format, Wide::f16, 1, true>, Ty::b32, Ty::f16, Ty::u32, Ty::f32, kResultByte);
  r[sr + "_bf16"] = scaled(run_pack<Format, Wide::bf16, 1, true>, Ty::b32, Ty::bf16, Ty::u32, Ty::f32, kResultByte);
}

template <int Results, int Words, int Blocks>
Entry block(Handler handler, uint8_t nsrc) {
  Entry e;
  e.build = build_block<Results, Words, Blocks>;
  e.fast = handler;
  e.nsrc = nsrc;
  return e;
}

template <const numeric::Format& Format, Wide W>
void six_bit_blocks(Registry& r, const std::string& name, const std::string& wide) {
  constexpr int kWords = words_of_block(W);
  const std::string prefix = "v_cvt_scalef32_", to = name + "_" + wide;
  r[prefix + "pk32_" + wide + "_" + name] = block<kWords, kSixBitWords, 1>(run_unpack_block<Format, W>, 2);
  r[prefix + "sr_pk32_" + to] = block<kSixBitWords, kWords, 1>(run_pack_block<Format, W, 1, true>, 3);
  if (W == Wide::f32) {  // without random bits there is no form with one operand of 32 registers
    r[prefix + "2xpk16_" + to] = block<kSixBitWords, kWords / 2, 2>(run_pack_block<Format, W, 2, false>, 3);
  } else {
    r[prefix + "pk32_" + to] = block<kSixBitWords, kWords, 1>(run_pack_block<Format, W, 1, false>, 2);
  }
}

template <const numeric::Format& Format>
void six_bits(Registry& r, const std::string& name) {
  six_bit_blocks<Format, Wide::f32>(r, name, "f32");
  six_bit_blocks<Format, Wide::f16>(r, name, "f16");
  six_bit_blocks<Format, Wide::bf16>(r, name, "bf16");
}

}  // namespace

void register_convert_scaled(Registry& r) {
  unpack<numeric::fp4>(r, "fp4", kSourceByte);
  unpack<numeric::fp8>(r, "fp8", kSourceWord);
  unpack<numeric::bf8>(r, "bf8", kSourceWord);
  pack<numeric::fp4>(r, "fp4", kResultByte);
  pack<numeric::fp8>(r, "fp8", kResultWord);
  pack<numeric::bf8>(r, "bf8", kResultWord);
  single<numeric::fp8>(r, "fp8");
  single<numeric::bf8>(r, "bf8");
  const std::string sr = "v_cvt_scalef32_sr_pk_fp4_";
  r[sr + "f32"] = scaled(run_pack<numeric::fp4, Wide::f32, 2, true>, Ty::b32, Ty::b64, Ty::u32, Ty::f32, kResultByte);
  r[sr + "f16"] = scaled(run_pack<numeric::fp4, Wide::f16, 2, true>, Ty::b32, Ty::b32, Ty::u32, Ty::f32, kResultByte);
  r[sr + "bf16"] = scaled(run_pack<numeric::fp4, Wide::bf16, 2, true>, Ty::b32, Ty::b32, Ty::u32, Ty::f32, kResultByte);
  six_bits<numeric::fp6>(r, "fp6");
  six_bits<numeric::bf6>(r, "bf6");
}

}  // namespace gfx950::exec
