// Scalar loads.
#include "builder.h"
#include "wave.h"

namespace gfx950::exec {
namespace {

using decode::Parsed;
using decode::ParsedOperand;

uint64_t offset_of(const Wave& w, const Inst& in) {
  uint64_t offset = static_cast<uint64_t>(static_cast<int64_t>(in.offset));
  if (in.src[1].kind == Operand::Kind::scalar) offset += w.s[in.src[1].reg];
  return offset;
}

void load(Wave& w, const Inst& in, uint64_t address, int words) {
  const uintptr_t last = address + 4 * static_cast<unsigned>(words) - 1;
  if (!in_window(w, address, last) && !reaches_last_dword(w, address, 4 * static_cast<unsigned>(words)))
    fail_address(w, in, -1, address, 4 * words);
  uint32_t value[16];
  std::memcpy(value, reinterpret_cast<const void*>(address), 4 * static_cast<size_t>(words));
  for (int k = 0; k < words; ++k) w.write32(in.dst + k, value[k]);
  w.counts.bytes_loaded += 4 * static_cast<unsigned>(words);
}

void s_load(Wave& w, const Inst& in) {
  const uint64_t address = (w.read64(in.src[0].reg) + offset_of(w, in)) & ~uint64_t{3};
  load(w, in, address, in.words);
}

void s_buffer_load(Wave& w, const Inst& in) {
  const uint32_t* rsrc = &w.s[in.src[0].reg];
  const uint64_t base = rsrc[0] | static_cast<uint64_t>(rsrc[1] & 0xffff) << 32;
  const uint32_t stride = rsrc[1] >> 16 & 0x3fff;
  const uint64_t bytes = stride == 0 ? rsrc[2] : static_cast<uint64_t>(stride) * rsrc[2];
  const uint64_t offset = offset_of(w, in) & ~uint64_t{3};
  // Dwords beyond the buffer read as zero.
  for (int k = 0; k < in.words; ++k) {
    const uint64_t at = offset + 4 * static_cast<unsigned>(k);
    if (at + 4 > bytes) {
      w.write32(in.dst + k, 0);
      continue;
    }
    if (!in_window(w, base + at, base + at + 3) && !reaches_last_dword(w, base + at, 4))
      fail_address(w, in, -1, base + at, 4);
    uint32_t value;
    std::memcpy(&value, reinterpret_cast<const void*>(base + at), 4);
    w.write32(in.dst + k, value);
    w.counts.bytes_loaded += 4;
  }
}

void build_smem(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  // "s_load_dwordx2 s[2:3], s[0:1], 0x10", with an SGPR offset instead or besides ("s4 offset:0x10").
  b.expect_operands(p, 3);
  b.allow_modifiers(p, {"offset", "glc"});
  in.words = static_cast<uint8_t>(e.value);
  in.dst = b.scalar_destination(p.operands[0], e.value);
  const int base_words = e.flags != 0 ? 4 : 2;
  if (p.operands[1].kind != ParsedOperand::Kind::scalar || p.operands[1].count != base_words) {
    Builder::refuse("base of a scalar load");
  }
  in.src[0].kind = Operand::Kind::scalar;
  in.src[0].reg = p.operands[1].reg;
  if (p.operands[2].kind == ParsedOperand::Kind::integer) {
    in.offset = static_cast<int32_t>(p.operands[2].integer);
  } else {
    in.src[1] = b.scalar_source(p.operands[2], Ty::u32);
    in.offset = static_cast<int32_t>(p.value("offset", 0));
  }
  in.klass = Klass::smem;
  in.fn = e.fast;
}

}  // namespace

void register_smem(Registry& r) {
  for (const auto& [name, words] :
       {std::pair<const char*, int>{"dword", 1}, {"dwordx2", 2}, {"dwordx4", 4}, {"dwordx8", 8}, {"dwordx16", 16}}) {
    Entry e;
    e.build = build_smem;
    e.value = words;
    e.fast = s_load;
    r[std::string("s_load_") + name] = e;
    e.flags = 1;
    e.fast = s_buffer_load;
    r[std::string("s_buffer_load_") + name] = e;
  }
}

}  // namespace gfx950::exec
