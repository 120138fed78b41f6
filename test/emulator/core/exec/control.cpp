// Branches, barriers, waits and the other instructions that move no data.
#include "builder.h"
#include "wave.h"

namespace gfx950::exec {
namespace {

using decode::Parsed;

// The decoder resolves in.offset from a byte offset to an index once all instructions are known.
void build_branch(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  b.allow_modifiers(p, {});
  in.offset = static_cast<int16_t>(p.words[0] & 0xffff) * 4 + 4;  // from this instruction
  in.klass = Klass::branch;
  in.fn = e.fast;
}

void build_plain(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  if (e.nsrc != 255) b.expect_operands(p, e.nsrc);
  b.allow_modifiers(p, {"sc0", "sc1", "nt"});
  in.offset = static_cast<int32_t>(p.words[0] & 0xffff);
  in.klass = Klass::other;
  in.fn = e.fast;
}

Entry branch(Handler handler) {
  Entry e;
  e.build = build_branch;
  e.fast = handler;
  return e;
}

// operands 255: any number, all of them immediates that change no result.
Entry plain(int operands, Handler handler) {
  Entry e;
  e.build = build_plain;
  e.nsrc = static_cast<uint8_t>(operands);
  e.fast = handler;
  return e;
}

void jump(Wave& w, const Inst& in) { w.pc = static_cast<uint32_t>(in.offset); }
void nothing(Wave&, const Inst&) {}

void build_getpc(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  in.dst = b.scalar_destination(p.operands[0], 2);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

void build_jump_register(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  const size_t first = e.value != 0 ? 1 : 0;
  b.expect_operands(p, first + 1);
  if (first != 0) in.dst = b.scalar_destination(p.operands[0], 2);
  in.src[0] = b.scalar_source(p.operands[first], Ty::b64);
  in.klass = Klass::branch;
  in.fn = e.fast;
}

void jump_to_address(Wave& w, const Inst& in, uint64_t address) {
  const int64_t index = w.program->index_of(address - w.program->base);
  if (index < 0) fail_unsupported(w, in, "jump to an address outside the kernel's own code");
  w.pc = static_cast<uint32_t>(index);
}

uint64_t next_address(const Wave& w) { return w.program->base + w.program->offset[w.pc]; }

// The die that the workgroup runs on: workgroups go round the eight of them.
void build_getreg(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  if (p.operands[1].kind != decode::ParsedOperand::Kind::call || p.operands[1].name != "hwreg" ||
      p.operands[1].arguments.empty()) {
    Builder::refuse("hardware register operand");
  }
  const std::string& name = p.operands[1].arguments[0];
  if (name != "HW_REG_XCC_ID" || p.operands[1].arguments.size() != 1) {
    Builder::refuse("hardware register " + name + " is not modelled");
  }
  in.dst = b.scalar_destination(p.operands[0], 1);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

// Of the MODE register only FP16_OVFL can be written.
void build_setreg(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  const decode::ParsedOperand& target = p.operands[0];
  const std::vector<std::string> fp16_ovfl = {"HW_REG_MODE", "23", "1"};
  if (target.kind != decode::ParsedOperand::Kind::call || target.name != "hwreg" || target.arguments != fp16_ovfl) {
    Builder::refuse("writing any other part of the hardware registers than MODE.FP16_OVFL is not modelled");
  }
  in.src[0] = b.scalar_source(p.operands[1], Ty::u32);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

void build_time(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  in.dst = b.scalar_destination(p.operands[0], 2);
  in.klass = Klass::smem;
  in.fn = e.fast;
}

}  // namespace

void register_control(Registry& r) {
  r["s_branch"] = branch(jump);
  r["s_cbranch_scc0"] = branch([](Wave& w, const Inst& in) {
    if (w.scc == 0) jump(w, in);
  });
  r["s_cbranch_scc1"] = branch([](Wave& w, const Inst& in) {
    if (w.scc != 0) jump(w, in);
  });
  r["s_cbranch_vccz"] = branch([](Wave& w, const Inst& in) {
    if (w.read64(kVcc) == 0) jump(w, in);
  });
  r["s_cbranch_vccnz"] = branch([](Wave& w, const Inst& in) {
    if (w.read64(kVcc) != 0) jump(w, in);
  });
  r["s_cbranch_execz"] = branch([](Wave& w, const Inst& in) {
    if (w.exec() == 0) jump(w, in);
  });
  r["s_cbranch_execnz"] = branch([](Wave& w, const Inst& in) {
    if (w.exec() != 0) jump(w, in);
  });
  r["s_endpgm"] = plain(0, [](Wave& w, const Inst&) { w.status = Status::ended; });
  r["s_barrier"] = plain(0, [](Wave& w, const Inst&) { w.status = Status::at_barrier; });
  r["s_sleep"] = plain(1, [](Wave& w, const Inst&) { w.status = Status::yielded; });
  // Loads complete when they are issued here and caches are coherent, so waits and write-backs change nothing.
  r["s_waitcnt"] = plain(255, nothing);
  r["s_nop"] = plain(1, nothing);
  r["s_setprio"] = plain(1, nothing);
  r["s_icache_inv"] = plain(0, nothing);
  r["s_dcache_inv"] = plain(0, nothing);
  r["s_dcache_wb"] = plain(0, nothing);
  r["buffer_wbl2"] = plain(0, nothing);
  r["buffer_inv"] = plain(0, nothing);
  r["s_sethalt"] = plain(1, [](Wave& w, const Inst& in) {
    if (in.offset != 0) fail_unsupported(w, in, "the wave halted itself");
  });
  r["s_trap"] = plain(1, [](Wave& w, const Inst& in) {
    fail_unsupported(w, in,
                     "the kernel trapped (trap " + std::to_string(in.offset & 0xff) + ": an assertion or abort)");
  });
  // MSG_DEALLOC_VGPRS and MSG_INTERRUPT: the host side of printf and abort, which nothing here serves.
  r["s_sendmsg"] = plain(1, [](Wave& w, const Inst& in) {
    if ((in.offset & 15) != 1) fail_unsupported(w, in, "this message is not modelled");
  });
  Entry e;
  e.build = build_getpc;
  e.fast = [](Wave& w, const Inst& in) { w.write64(in.dst, next_address(w)); };
  r["s_getpc_b64"] = e;
  e = Entry{};
  e.build = build_jump_register;
  e.fast = [](Wave& w, const Inst& in) { jump_to_address(w, in, scalar64(w, in.src[0])); };
  r["s_setpc_b64"] = e;
  e.value = 1;
  e.fast = [](Wave& w, const Inst& in) {
    const uint64_t target = scalar64(w, in.src[0]);
    w.write64(in.dst, next_address(w));
    jump_to_address(w, in, target);
  };
  r["s_swappc_b64"] = e;
  e = Entry{};
  e.build = build_time;
  // The wave's instructions so far, by time slices: never falls, and pretends to be no real clock.
  e.fast = [](Wave& w, const Inst& in) { w.write64(in.dst, w.steps); };
  r["s_memtime"] = r["s_memrealtime"] = e;
  e = Entry{};
  e.build = build_setreg;
  e.fast = [](Wave& w, const Inst& in) { w.saturate = saturate_small_floats = (scalar32(w, in.src[0]) & 1) != 0; };
  r["s_setreg_b32"] = r["s_setreg_imm32_b32"] = e;
  e = Entry{};
  e.build = build_getreg;
  e.fast = [](Wave& w, const Inst& in) { w.write32(in.dst, w.xcc); };
  r["s_getreg_b32"] = e;
}

}  // namespace gfx950::exec
