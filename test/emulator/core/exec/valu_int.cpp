// Vector ALU on integers and bits.
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;
using u16 = uint16_t;
using i16 = int16_t;

template <class T>
T min3(T a, T b, T c) {
  const T x = a < b ? a : b;
  return x < c ? x : c;
}
template <class T>
T max3(T a, T b, T c) {
  const T x = a > b ? a : b;
  return x > c ? x : c;
}
template <class T>
T median(T a, T b, T c) {
  const T low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
}

i32 clamp32(i64 x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : static_cast<i32>(x); }

u32 clamp_byte(i32 x, i32 low, i32 high) { return static_cast<u32>(x < low ? low : x > high ? high : x) & 0xff; }

u32 sign_extend24(u32 x) { return static_cast<u32>(static_cast<i32>(x << 8) >> 8); }

u32 reverse_bits(u32 x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}

// v_perm_b32: each byte of c selects one: 0-3 from b, 4-7 from a, 8-11 the sign of a half (b low, b high, a low, a
// high), 12 zero, above all ones.
struct PermuteBytes {
  static constexpr int kSources = 3;
  static void lanes(u32* d, const u32* a, const u32* b, const u32* c) {
    const __m256i lane_base =
        _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    auto load = [](const u32* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); };
    auto byte = [](int x) { return _mm256_set1_epi8(static_cast<char>(x)); };
    for (int i = 0; i < kLanes; i += 8) {
      const __m256i x = load(a + i), y = load(b + i), select = load(c + i);
      const __m256i index = _mm256_add_epi8(_mm256_and_si256(select, byte(3)), lane_base);
      const __m256i from_a = _mm256_shuffle_epi8(x, index), from_b = _mm256_shuffle_epi8(y, index);
      // Signs of b's halves, then of a's, as the four bytes that selectors 8 to 11 name.
      const __m256i signs = _mm256_or_si256(
          _mm256_and_si256(_mm256_srli_epi32(y, 15), _mm256_set1_epi32(1)),
          _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(y, 23), _mm256_set1_epi32(0x100)),
                          _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi32(x, 1), _mm256_set1_epi32(0x10000)),
                                          _mm256_and_si256(_mm256_srli_epi32(x, 7), _mm256_set1_epi32(0x1000000)))));
      const __m256i sign = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(signs, index), byte(1));
      auto at_least = [&](int limit) { return _mm256_cmpeq_epi8(_mm256_max_epu8(select, byte(limit)), select); };
      __m256i result = _mm256_blendv_epi8(from_b, from_a, at_least(4));
      result = _mm256_blendv_epi8(result, sign, at_least(8));
      result = _mm256_andnot_si256(at_least(12), result);
      result = _mm256_or_si256(result, at_least(13));
      _mm256_store_si256(reinterpret_cast<__m256i*>(d + i), result);
    }
  }
};

// Bitwise function of three inputs by truth table: bit (4a + 2b + c) of the table.
void bitop3_rows(Wave& w, const Inst& in, u32 keep) {
  alignas(64) u32 buffer[3][2 * kLanes];
  const u32* a = source(w, in, 0, buffer[0]);
  const u32* b = source(w, in, 1, buffer[1]);
  const u32* c = source(w, in, 2, buffer[2]);
  alignas(64) u32 out[kLanes];
  u32 table[8];
  for (int i = 0; i < 8; ++i) table[i] = (in.offset >> i & 1) != 0 ? ~u32{0} : 0;
  for (int i = 0; i < kLanes; ++i) {
    const u32 x = a[i], y = b[i], z = c[i];
    const u32 when0 = (~y & ((~z & table[0]) | (z & table[1]))) | (y & ((~z & table[2]) | (z & table[3])));
    const u32 when1 = (~y & ((~z & table[4]) | (z & table[5]))) | (y & ((~z & table[6]) | (z & table[7])));
    out[i] = ((~x & when0) | (x & when1)) & keep;
  }
  if ((in.flags & kKeepHigh) != 0) {
    const u32* d = w.v[in.dst];
    for (int i = 0; i < kLanes; ++i) out[i] |= d[i] & 0xffff0000u;
  }
  write_rows(w, w.v[in.dst], out, 1);
}

void build_bitop3(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 4);
  b.allow_modifiers(p, {"bitop3"});
  in.dst = b.vector_destination(p.operands[0], 1);
  for (int k = 0; k < 3; ++k) b.vector_source(in, k, p.operands[1 + k], e.src[k]);
  in.offset = static_cast<int32_t>(p.value("bitop3", 0));
  in.klass = Klass::valu;
  in.nsrc = 3;
  in.fn = e.fast;
}

void register_add(Registry& r) {
  r["v_add_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a + b; });
  r["v_sub_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a - b; });
  r["v_subrev_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return b - a; });
  r["v_add_i32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a + b; });
  r["v_sub_i32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a - b; });
  r["v_add_u32"] =
      with_clamp<Ty::u32, Ty::u32, Ty::u32>(r["v_add_u32"], [](u32 a, u32 b) { return a + b < a ? ~u32{0} : a + b; });
  r["v_sub_u32"] =
      with_clamp<Ty::u32, Ty::u32, Ty::u32>(r["v_sub_u32"], [](u32 a, u32 b) { return a < b ? 0 : a - b; });
  r["v_subrev_u32"] =
      with_clamp<Ty::u32, Ty::u32, Ty::u32>(r["v_subrev_u32"], [](u32 a, u32 b) { return b < a ? 0 : b - a; });
  r["v_add_i32"] =
      with_clamp<Ty::i32, Ty::i32, Ty::i32>(r["v_add_i32"], [](i32 a, i32 b) { return clamp32(i64(a) + b); });
  r["v_sub_i32"] =
      with_clamp<Ty::i32, Ty::i32, Ty::i32>(r["v_sub_i32"], [](i32 a, i32 b) { return clamp32(i64(a) - b); });
  r["v_add3_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return a + b + c; });
  r["v_lshl_add_u32"] =
      lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; });
  r["v_add_lshl_u32"] =
      lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); });
  r["v_xad_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return (a ^ b) + c; });
  r["v_lshl_add_u64"] =
      lane_op<Ty::u64, Ty::u64, Ty::u32, Ty::u64>([](u64 a, u32 b, u64 c) { return (a << (b & 7)) + c; });
  r["v_sad_u32"] =
      lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; });
}

void register_multiply(Registry& r) {
  r["v_mul_lo_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a * b; }, 0, 4);
  r["v_mul_hi_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return u32(u64(a) * b >> 32); }, 0, 4);
  r["v_mul_hi_i32"] = lane_op<Ty::i32, Ty::i32, Ty::i32>([](i32 a, i32 b) { return i32(i64(a) * b >> 32); }, 0, 4);
  r["v_mul_u32_u24"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); });
  r["v_mul_i32_i24"] =
      lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return sign_extend24(a) * sign_extend24(b); });
  r["v_mul_hi_u32_u24"] =
      lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return u32(u64(a & 0xffffff) * (b & 0xffffff) >> 32); });
  r["v_mul_hi_i32_i24"] = lane_op<Ty::u32, Ty::u32, Ty::u32>(
      [](u32 a, u32 b) { return u32(i64(i32(sign_extend24(a))) * i32(sign_extend24(b)) >> 32); });
  r["v_mad_u32_u24"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>(
      [](u32 a, u32 b, u32 c) { return (a & 0xffffff) * (b & 0xffffff) + c; });
  r["v_mad_i32_i24"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>(
      [](u32 a, u32 b, u32 c) { return sign_extend24(a) * sign_extend24(b) + c; });
}

// Sums of differences, byte by byte or half by half.
template <unsigned Bits, bool Masked>
u32 differences(u32 a, u32 b, u32 sum) {
  for (unsigned shift = 0; shift < 32; shift += Bits) {
    const u32 x = a >> shift & ((1u << Bits) - 1), y = b >> shift & ((1u << Bits) - 1);
    if (!Masked || y != 0) sum += x > y ? x - y : y - x;
  }
  return sum;
}

void register_bytes(Registry& r) {
  auto op = [](auto f) { return lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>(f); };
  r["v_sad_u8"] = op([](u32 a, u32 b, u32 c) { return differences<8, false>(a, b, c); });
  r["v_sad_hi_u8"] = op([](u32 a, u32 b, u32 c) { return (differences<8, false>(a, b, 0) << 16) + c; });
  r["v_sad_u16"] = op([](u32 a, u32 b, u32 c) { return differences<16, false>(a, b, c); });
  r["v_msad_u8"] = op([](u32 a, u32 b, u32 c) { return differences<8, true>(a, b, c); });
  r["v_lerp_u8"] = op([](u32 a, u32 b, u32 c) {
    u32 result = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) {
      result |= ((a >> shift & 255) + (b >> shift & 255) + (c >> shift & 1)) >> 1 << shift;
    }
    return result;
  });
}

void register_bits(Registry& r) {
  r["v_mov_b32"] = lane_op<Ty::b32, Ty::b32>([](u32 a) { return a; });
  r["v_mov_b64"] = lane_op<Ty::b64, Ty::b64>([](u64 a) { return a; });
  r["v_not_b32"] = lane_op<Ty::b32, Ty::b32>([](u32 a) { return ~a; });
  r["v_bfrev_b32"] = lane_op<Ty::b32, Ty::b32>([](u32 a) { return reverse_bits(a); });
  r["v_ffbh_u32"] = lane_op<Ty::u32, Ty::u32>([](u32 a) { return a == 0 ? ~0u : u32(__builtin_clz(a)); });
  r["v_prng_b32"] = lane_op<Ty::u32, Ty::u32>([](u32 a) { return a << 1 ^ (a >> 31 != 0 ? 197u : 0u); });
  r["v_ffbl_b32"] = lane_op<Ty::u32, Ty::u32>([](u32 a) { return a == 0 ? ~0u : u32(__builtin_ctz(a)); });
  r["v_ffbh_i32"] =
      lane_op<Ty::u32, Ty::i32>([](i32 a) { return a == 0 || a == -1 ? ~0u : u32(__builtin_clrsb(a) + 1); });
  r["v_and_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b) { return a & b; });
  r["v_or_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b) { return a | b; });
  r["v_xor_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b) { return a ^ b; });
  r["v_xnor_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b) { return ~(a ^ b); });
  r["v_lshlrev_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b) { return b << (a & 31); });
  r["v_lshrrev_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b) { return b >> (a & 31); });
  r["v_ashrrev_i32"] = lane_op<Ty::i32, Ty::u32, Ty::i32>([](u32 a, i32 b) { return b >> (a & 31); });
  r["v_lshlrev_b64"] = lane_op<Ty::b64, Ty::b32, Ty::b64>([](u32 a, u64 b) { return b << (a & 63); });
  r["v_lshrrev_b64"] = lane_op<Ty::b64, Ty::b32, Ty::b64>([](u32 a, u64 b) { return b >> (a & 63); });
  r["v_ashrrev_i64"] = lane_op<Ty::i64, Ty::b32, Ty::i64>([](u32 a, i64 b) { return b >> (a & 63); });
  r["v_lshl_or_b32"] =
      lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b, u32 c) { return a << (b & 31) | c; });
  r["v_and_or_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b, u32 c) { return (a & b) | c; });
  r["v_or3_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b, u32 c) { return a | b | c; });
  r["v_bfi_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
  r["v_bfm_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  r["v_bfe_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>(
      [](u32 a, u32 b, u32 c) { return a >> (b & 31) & ((1u << (c & 31)) - 1); });
  r["v_bfe_i32"] = lane_op<Ty::u32, Ty::i32, Ty::u32, Ty::u32>([](i32 a, u32 b, u32 c) {
    const u32 width = c & 31;
    const u32 field = u32(a >> (b & 31)) & ((1u << width) - 1);
    const u32 sign = width == 0 ? 0 : 1u << (width - 1);
    return (field ^ sign) - sign;
  });
  r["v_alignbit_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::b32>(
      [](u32 a, u32 b, u32 c) { return u32((u64(a) << 32 | b) >> (c & 31)); });
  r["v_alignbyte_b32"] = lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::b32>(
      [](u32 a, u32 b, u32 c) { return u32((u64(a) << 32 | b) >> (8 * (c & 3))); });
  Entry perm = lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::b32>([](u32 a, u32, u32) { return a; });
  perm.lanes = PermuteBytes::lanes;
  perm.fast = run_plain<PermuteBytes, 1>;
  r["v_perm_b32"] = perm;
  r["v_bcnt_u32_b32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return u32(__builtin_popcount(a)) + b; });
  // Both move bits, but take float modifiers.
  auto signed_sources = [](Entry e) {
    for (Ty& type : e.src) type = type == Ty::b32 ? Ty::f32 : type;
    return e;
  };
  r["v_mov_b32"] = signed_sources(r["v_mov_b32"]);
  r["v_cndmask_b32"] = signed_sources(
      lane_op<Ty::b32, Ty::b32, Ty::b32, Ty::mask>([](u32 a, u32 b, u32 m) { return (b & m) | (a & ~m); }));
  Entry e;
  e.build = build_bitop3;
  e.src[0] = e.src[1] = e.src[2] = Ty::b32;
  e.fast = [](Wave& w, const Inst& in) { bitop3_rows(w, in, ~u32{0}); };
  r["v_bitop3_b32"] = e;
  e.src[0] = e.src[1] = e.src[2] = Ty::b16;
  e.fast = [](Wave& w, const Inst& in) { bitop3_rows(w, in, 0xffff); };
  r["v_bitop3_b16"] = e;
}

void register_minmax(Registry& r) {
  r["v_min_i32"] = lane_op<Ty::i32, Ty::i32, Ty::i32>([](i32 a, i32 b) { return a < b ? a : b; });
  r["v_max_i32"] = lane_op<Ty::i32, Ty::i32, Ty::i32>([](i32 a, i32 b) { return a > b ? a : b; });
  r["v_min_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a < b ? a : b; });
  r["v_max_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a > b ? a : b; });
  r["v_min3_i32"] = lane_op<Ty::i32, Ty::i32, Ty::i32, Ty::i32>([](i32 a, i32 b, i32 c) { return min3(a, b, c); });
  r["v_max3_i32"] = lane_op<Ty::i32, Ty::i32, Ty::i32, Ty::i32>([](i32 a, i32 b, i32 c) { return max3(a, b, c); });
  r["v_med3_i32"] = lane_op<Ty::i32, Ty::i32, Ty::i32, Ty::i32>([](i32 a, i32 b, i32 c) { return median(a, b, c); });
  r["v_min3_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return min3(a, b, c); });
  r["v_max3_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return max3(a, b, c); });
  r["v_med3_u32"] = lane_op<Ty::u32, Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b, u32 c) { return median(a, b, c); });
}

void register_int16(Registry& r) {
  r["v_add_u16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return u16(a + b); });
  r["v_sub_u16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return u16(a - b); });
  r["v_subrev_u16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return u16(b - a); });
  r["v_add_i16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return u16(a + b); });
  r["v_sub_i16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return u16(a - b); });
  r["v_add_u16"] = with_clamp<Ty::u16, Ty::u16, Ty::u16>(
      r["v_add_u16"], [](u16 a, u16 b) { return u16(u32(a) + b > 0xffff ? 0xffff : a + b); });
  r["v_sub_u16"] =
      with_clamp<Ty::u16, Ty::u16, Ty::u16>(r["v_sub_u16"], [](u16 a, u16 b) { return u16(a < b ? 0 : a - b); });
  r["v_mul_lo_u16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return u16(u32(a) * b); });
  r["v_lshlrev_b16"] = lane_op<Ty::b16, Ty::b16, Ty::b16>([](u16 a, u16 b) { return u16(u32(b) << (a & 15)); });
  r["v_lshrrev_b16"] = lane_op<Ty::b16, Ty::b16, Ty::b16>([](u16 a, u16 b) { return u16(b >> (a & 15)); });
  r["v_ashrrev_i16"] = lane_op<Ty::i16, Ty::b16, Ty::i16>([](u16 a, i16 b) { return i16(b >> (a & 15)); });
  r["v_min_i16"] = lane_op<Ty::i16, Ty::i16, Ty::i16>([](i16 a, i16 b) { return a < b ? a : b; });
  r["v_max_i16"] = lane_op<Ty::i16, Ty::i16, Ty::i16>([](i16 a, i16 b) { return a > b ? a : b; });
  r["v_min_u16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return a < b ? a : b; });
  r["v_max_u16"] = lane_op<Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b) { return a > b ? a : b; });
  r["v_mad_u16"] = lane_op<Ty::u16, Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b, u16 c) { return u16(u32(a) * b + c); },
                                                               kPreservesHigh);
  r["v_mad_i16"] = lane_op<Ty::u16, Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b, u16 c) { return u16(u32(a) * b + c); },
                                                               kPreservesHigh);
  r["v_min3_i16"] =
      lane_op<Ty::i16, Ty::i16, Ty::i16, Ty::i16>([](i16 a, i16 b, i16 c) { return min3(a, b, c); }, kPreservesHigh);
  r["v_max3_i16"] =
      lane_op<Ty::i16, Ty::i16, Ty::i16, Ty::i16>([](i16 a, i16 b, i16 c) { return max3(a, b, c); }, kPreservesHigh);
  r["v_med3_i16"] =
      lane_op<Ty::i16, Ty::i16, Ty::i16, Ty::i16>([](i16 a, i16 b, i16 c) { return median(a, b, c); }, kPreservesHigh);
  r["v_min3_u16"] =
      lane_op<Ty::u16, Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b, u16 c) { return min3(a, b, c); }, kPreservesHigh);
  r["v_max3_u16"] =
      lane_op<Ty::u16, Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b, u16 c) { return max3(a, b, c); }, kPreservesHigh);
  r["v_med3_u16"] =
      lane_op<Ty::u16, Ty::u16, Ty::u16, Ty::u16>([](u16 a, u16 b, u16 c) { return median(a, b, c); }, kPreservesHigh);
  auto mad16 = [](u16 a, u16 b, u16 c) { return u16(u32(a) * b + c); };
  r["v_mad_legacy_u16"] = r["v_mad_legacy_i16"] = lane_op<Ty::u16, Ty::u16, Ty::u16, Ty::u16>(mad16);
  r["v_mad_u32_u16"] =
      lane_op<Ty::u32, Ty::u16, Ty::u16, Ty::u32>([](u16 a, u16 b, u32 c) { return u32(a) * u32(b) + c; });
  r["v_mad_i32_i16"] =
      lane_op<Ty::u32, Ty::i16, Ty::i16, Ty::u32>([](i16 a, i16 b, u32 c) { return u32(i32(a) * i32(b)) + c; });
  r["v_ashr_pk_i8_i32"] = lane_op<Ty::b16, Ty::i32, Ty::i32, Ty::u32>(
      [](i32 a, i32 b, u32 c) {
        return u16(clamp_byte(a >> (c & 31), -128, 127) | clamp_byte(b >> (c & 31), -128, 127) << 8);
      },
      kPreservesHigh);
  r["v_ashr_pk_u8_i32"] = lane_op<Ty::b16, Ty::i32, Ty::i32, Ty::u32>(
      [](i32 a, i32 b, u32 c) {
        return u16(clamp_byte(a >> (c & 31), 0, 255) | clamp_byte(b >> (c & 31), 0, 255) << 8);
      },
      kPreservesHigh);
  // Packs two halves: every 16-bit source may be the high half of its register.
  r["v_pack_b32_f16"] = lane_op<Ty::b32, Ty::b16, Ty::b16>([](u16 a, u16 b) { return u32(a) | u32(b) << 16; });
}

}  // namespace

void register_valu_int(Registry& r) {
  register_add(r);
  register_multiply(r);
  register_bits(r);
  register_bytes(r);
  register_minmax(r);
  register_int16(r);
}

}  // namespace gfx950::exec
