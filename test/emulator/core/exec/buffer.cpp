// buffer_*: memory through a descriptor of four scalar registers, with bounds.
#include "builder.h"
#include "vmem.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;
using decode::Parsed;
using decode::ParsedOperand;

enum : uint8_t { kOffen = 1, kIdxen = 2, kReturns = 4 };

// Splits lanes: `lanes.on` lie in the buffer whole, `partly` have some dwords inside, the rest read zero and store
// nothing.
struct BufferAccess {
  LaneAddresses lanes;
  uint64_t exec = 0;
  uint64_t partly = 0;
  u64 base = 0;   // with the scalar offset
  u64 limit = 0;  // bytes from base that are inside
  alignas(64) u64 offset[kLanes];
};

void locate(Wave& w, const Inst& in, BufferAccess& out, unsigned bytes, unsigned granule,
            LastDword last = LastDword::whole) {
  const u32* rsrc = &w.s[in.src[1].reg];
  const u32 stride = rsrc[1] >> 16 & 0x3fff;
  const u64 records = rsrc[2];
  // Swizzled addressing (SWIZZLE_ENABLE bit 31 of word 1) and ADD_TID (bit 23 of word 3) rearrange memory.
  if ((rsrc[1] >> 31 & 1) != 0) fail_unsupported(w, in, "a swizzled buffer");
  if ((rsrc[3] >> 23 & 1) != 0) fail_unsupported(w, in, "a buffer with ADD_TID_ENABLE");
  const u64 soffset = scalar32(w, in.src[2]);
  out.base = (rsrc[0] | static_cast<u64>(rsrc[1] & 0xffff) << 32) + soffset;
  out.exec = w.exec();
  const bool structured = (in.flags & kIdxen) != 0 && stride != 0;
  const int vector = in.src[0].kind == Operand::Kind::vector ? in.src[0].reg : -1;
  const u32* index = (in.flags & kIdxen) != 0 ? w.v[vector] : nullptr;
  const u32* voffset = (in.flags & kOffen) == 0 ? nullptr : w.v[vector + (index != nullptr ? 1 : 0)];
  const u64 fixed = static_cast<u32>(in.offset);
  if (index == nullptr) {
    // Raw: bytes are counted against num_records; the scalar offset takes part in the check.
    out.limit = records > soffset ? records - soffset : 0;
    u64 top = 0;
    if (voffset != nullptr) {
      for (int i = 0; i < kLanes; ++i) out.offset[i] = voffset[i] + fixed;
    } else {
      for (int i = 0; i < kLanes; ++i) out.offset[i] = fixed;
    }
    if (out.exec == ~u64{0}) {
      for (int i = 0; i < kLanes; ++i) top = out.offset[i] > top ? out.offset[i] : top;
    } else {
      for_each_lane(out.exec, [&](int i) { top = out.offset[i] > top ? out.offset[i] : top; });
    }
    if (top + bytes <= out.limit) {
      out.lanes.on = out.exec;
    } else {
      for_each_lane(out.exec, [&](int i) {
        if (out.offset[i] + bytes <= out.limit) {
          out.lanes.on |= u64{1} << i;
        } else if (out.offset[i] + granule <= out.limit) {
          out.partly |= u64{1} << i;
        }
      });
    }
  } else {
    out.limit = ~u64{0};
    for_each_lane(out.exec, [&](int i) {
      const u64 within = (voffset != nullptr ? voffset[i] : 0) + fixed;
      out.offset[i] = static_cast<u64>(index[i]) * stride + within;
      // Structured: the index counts records. A zero stride makes it raw again.
      const bool inside = structured ? index[i] < records : within + soffset + bytes <= records;
      if (inside) out.lanes.on |= u64{1} << i;
    });
  }
  for (int i = 0; i < kLanes; ++i) out.lanes.at[i] = static_cast<int64_t>(out.base + out.offset[i]);
  check_addresses(w, in, out.lanes, bytes, last);
}

// A dword of a partly covered lane, if it is inside.
bool covered(Wave& w, const Inst& in, const BufferAccess& access, int lane, int k) {
  if (access.offset[lane] + 4 * static_cast<unsigned>(k) + 4 > access.limit) return false;
  const uintptr_t at = static_cast<uintptr_t>(access.lanes.at[lane]) + 4 * static_cast<unsigned>(k);
  if (!in_window(w, at, at + 3)) fail_address(w, in, lane, at, 4);
  return true;
}

template <int Words>
void load(Wave& w, const Inst& in) {
  BufferAccess access;
  locate(w, in, access, 4 * Words, 4);
  if (w.address_only) return;
  const uint64_t outside = access.exec & ~access.lanes.on;
  load_dwords<Words>(w, in, access.lanes);
  for_each_lane(outside, [&](int i) {
    for (int k = 0; k < Words; ++k) {
      u32 x = 0;
      if ((access.partly >> i & 1) != 0 && covered(w, in, access, i, k)) {
        std::memcpy(&x, pointer(access.lanes.at[i]) + 4 * k, 4);
      }
      w.v[in.dst + k][i] = x;
    }
  });
}

template <int Words>
void store(Wave& w, const Inst& in) {
  BufferAccess access;
  locate(w, in, access, 4 * Words, 4, LastDword::exact);
  if (w.address_only) return;
  const u32* data = w.v[in.src[3].reg];
  store_dwords<Words>(w, data, access.lanes);
  for_each_lane(access.partly, [&](int i) {
    for (int k = 0; k < Words; ++k) {
      if (covered(w, in, access, i, k)) std::memcpy(pointer(access.lanes.at[i]) + 4 * k, &data[k * kLanes + i], 4);
    }
  });
}

template <Element E>
void load_part(Wave& w, const Inst& in) {
  BufferAccess access;
  const unsigned bytes = static_cast<unsigned>(bytes_of(E));
  locate(w, in, access, bytes, bytes);
  if (w.address_only) return;
  load_small<E>(w, in, access.lanes);
  u32* d = w.v[in.dst];
  for_each_lane(access.exec & ~access.lanes.on, [&](int i) { d[i] = loaded(E, 0, d[i]); });
}

template <Element E>
void store_part(Wave& w, const Inst& in) {
  BufferAccess access;
  const unsigned bytes = static_cast<unsigned>(bytes_of(E));
  locate(w, in, access, bytes, bytes);
  store_small<E>(w, w.v[in.src[3].reg], access.lanes);
}

template <int Words>
void load_lds(Wave& w, const Inst& in) {
  BufferAccess access;
  locate(w, in, access, 4 * Words, 4);
  if (access.partly != 0) fail_unsupported(w, in, "LDS DMA across the end of its buffer");
  load_to_lds<Words>(w, in, access.lanes, access.exec & ~access.lanes.on);
}

template <Element E>
void load_part_lds(Wave& w, const Inst& in) {
  BufferAccess access;
  const unsigned bytes = static_cast<unsigned>(bytes_of(E));
  locate(w, in, access, bytes, bytes);
  load_part_to_lds<E>(w, in, access.lanes, access.exec & ~access.lanes.on);
}

template <class U, Atomic Op>
void atomic(Wave& w, const Inst& in) {
  BufferAccess access;
  locate(w, in, access, sizeof(U), sizeof(U));
  if (w.address_only) return;
  const bool returns = (in.flags & kReturns) != 0;
  atomic_lanes<U, Op>(w, in, w.v[in.src[3].reg], returns ? in.src[3].reg : -1, access.lanes);
  if (returns) {
    for_each_lane(access.exec & ~access.lanes.on, [&](int i) {
      for (unsigned k = 0; k < sizeof(U) / 4; ++k) w.v[in.src[3].reg + k][i] = 0;
    });
  }
}

// Entry: dst the data type; flags 1 for stores and atomics, 2 for atomics; extra: the handler of the lds form.
void build_buffer(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.allow_modifiers(p, {"offen", "idxen", "offset", "sc0", "sc1", "nt", "lds"});
  const bool lds = p.has("lds");
  b.expect_operands(p, lds ? 3 : 4);
  size_t next = 0;
  if (!lds) {
    const uint16_t data = b.vector_destination(p.operands[next++], words_of(e.dst) * (e.nsrc == 2 ? 2 : 1));
    in.dst = data;
    in.src[3].kind = Operand::Kind::vector;
    in.src[3].reg = data;
  } else if (e.extra == nullptr) {
    Builder::refuse("the lds form of this width");
  }
  const ParsedOperand& address = p.operands[next++];
  in.flags = static_cast<uint8_t>((p.has("offen") ? kOffen : 0) | (p.has("idxen") ? kIdxen : 0));
  const int words = (p.has("offen") ? 1 : 0) + (p.has("idxen") ? 1 : 0);
  if (words != 0) {
    in.src[0].kind = Operand::Kind::vector;
    in.src[0].reg = b.vector_destination(address, words);
  } else if (address.kind != ParsedOperand::Kind::off) {
    Builder::refuse("an address without offen or idxen");
  }
  in.src[1].kind = Operand::Kind::scalar;
  in.src[1].reg = b.scalar_destination(p.operands[next++], 4);
  in.src[2] = b.scalar_source(p.operands[next], Ty::u32);
  in.offset = static_cast<int32_t>(p.value("offset", 0));
  if (e.flags == 2 && p.has("sc0")) in.flags |= kReturns;
  in.klass = Klass::vmem;
  in.words = static_cast<uint8_t>(words_of(e.dst));
  in.fn = lds ? reinterpret_cast<Handler>(reinterpret_cast<uintptr_t>(e.extra)) : e.fast;
}

Entry entry(Handler handler, Ty type, int kind, Handler lds = nullptr) {
  Entry e;
  e.build = build_buffer;
  e.fast = handler;
  e.dst = type;
  e.flags = static_cast<uint16_t>(kind);
  e.extra = reinterpret_cast<const void*>(lds);
  return e;
}

struct AddAtomic {
  Registry& registry;

  template <class U, Atomic Op>
  void operator()(const char* name) const {
    Entry e = entry(atomic<U, Op>, sizeof(U) == 8 ? Ty::b64 : Ty::b32, 2);
    if (Op == Atomic::cmpswap) e.nsrc = 2;  // data holds the new value and the comparand
    registry[std::string("buffer_atomic_") + name] = e;
  }
};

}  // namespace

void register_buffer(Registry& r) {
  r["buffer_load_dword"] = entry(load<1>, Ty::b32, 0, load_lds<1>);
  r["buffer_load_dwordx2"] = entry(load<2>, Ty::b64, 0);
  r["buffer_load_dwordx3"] = entry(load<3>, Ty::b96, 0, load_lds<3>);
  r["buffer_load_dwordx4"] = entry(load<4>, Ty::b128, 0, load_lds<4>);
  r["buffer_store_dword"] = entry(store<1>, Ty::b32, 1);
  r["buffer_store_dwordx2"] = entry(store<2>, Ty::b64, 1);
  r["buffer_store_dwordx3"] = entry(store<3>, Ty::b96, 1);
  r["buffer_store_dwordx4"] = entry(store<4>, Ty::b128, 1);
  r["buffer_load_ubyte"] = entry(load_part<Element::u8>, Ty::b32, 0, load_part_lds<Element::u8>);
  r["buffer_load_sbyte"] = entry(load_part<Element::i8>, Ty::b32, 0, load_part_lds<Element::i8>);
  r["buffer_load_ushort"] = entry(load_part<Element::u16>, Ty::b32, 0, load_part_lds<Element::u16>);
  r["buffer_load_sshort"] = entry(load_part<Element::i16>, Ty::b32, 0, load_part_lds<Element::i16>);
  r["buffer_load_ubyte_d16"] = entry(load_part<Element::u8_low>, Ty::b32, 0);
  r["buffer_load_ubyte_d16_hi"] = entry(load_part<Element::u8_high>, Ty::b32, 0);
  r["buffer_load_sbyte_d16"] = entry(load_part<Element::i8_low>, Ty::b32, 0);
  r["buffer_load_sbyte_d16_hi"] = entry(load_part<Element::i8_high>, Ty::b32, 0);
  r["buffer_load_short_d16"] = entry(load_part<Element::u16_low>, Ty::b32, 0);
  r["buffer_load_short_d16_hi"] = entry(load_part<Element::u16_high>, Ty::b32, 0);
  r["buffer_store_byte"] = entry(store_part<Element::u8>, Ty::b32, 1);
  r["buffer_store_byte_d16_hi"] = entry(store_part<Element::u8_high>, Ty::b32, 1);
  r["buffer_store_short"] = entry(store_part<Element::u16>, Ty::b32, 1);
  r["buffer_store_short_d16_hi"] = entry(store_part<Element::u16_high>, Ty::b32, 1);
  each_memory_atomic(AddAtomic{r});
}

}  // namespace gfx950::exec
