// v_mfma_*: operands of the matrix instructions; mfma.h computes them.
#include "builder.h"
#include "mfma.h"
#include "wave.h"

namespace gfx950::exec {
namespace {

using decode::Parsed;
using decode::ParsedOperand;

// src: A, B, C, and the scales in the record below.
struct Matrix {
  MfmaOp op;
  Operand scale[2];
  const uint32_t* scale_rows[2] = {};
  unsigned scale_byte[2] = {};
};

const uint32_t* scale_row(Wave& w, const Matrix& m, int k, uint32_t* buffer) {
  if (m.scale[k].kind == Operand::Kind::vector) return w.v[m.scale[k].reg];
  if (m.scale[k].kind == Operand::Kind::constant) return m.scale_rows[k];
  broadcast(scalar32(w, m.scale[k]), buffer);
  return buffer;
}

void run(Wave& w, const Inst& in) {
  const Matrix& m = *static_cast<const Matrix*>(in.extra);
  const Row* c = in.src[2].kind == Operand::Kind::vector ? &w.v[in.src[2].reg] : nullptr;
  if (m.op.scaled) {
    alignas(64) uint32_t buffer[2][kLanes];
    const uint32_t* a = scale_row(w, m, 0, buffer[0]);
    const uint32_t* b = scale_row(w, m, 1, buffer[1]);
    mfma_execute(m.op, &w.v[in.src[0].reg], &w.v[in.src[1].reg], c, in.src[2].value, &w.v[in.dst], a, m.scale_byte[0],
                 b, m.scale_byte[1]);
  } else {
    mfma_execute(m.op, &w.v[in.src[0].reg], &w.v[in.src[1].reg], c, in.src[2].value, &w.v[in.dst], nullptr, 0, nullptr,
                 0);
  }
}

}  // namespace

// Not in the registry by name: describe() knows the mnemonics. Returns false if `p` is no MFMA.
bool build_matrix(Builder& b, const Parsed& p, Inst& in) {
  if (p.base.compare(0, 7, "v_mfma_") != 0) return false;
  auto field = [&](const char* name) { return static_cast<unsigned>(p.value(name, 0)); };
  // The f64 forms have no blgp; the same bits negate A, B and C there.
  unsigned blgp = field("blgp");
  auto neg = p.modifiers.find("neg");
  if (neg != p.modifiers.end()) {
    if (p.base.find("_f64_") == std::string::npos || blgp != 0 || neg->second.size() != 3) Builder::refuse("neg");
    for (unsigned k = 0; k < 3; ++k) blgp |= static_cast<unsigned>(neg->second[k] & 1) << k;
  }
  Matrix m;
  if (!mfma_describe(p.base, field("cbsz"), field("abid"), blgp, m.op)) {
    Builder::refuse("not a matrix instruction that is modelled (with cbsz " + std::to_string(field("cbsz")) +
                    ", abid " + std::to_string(field("abid")) + ", blgp " + std::to_string(field("blgp")) + ")");
  }
  b.allow_modifiers(p, {"cbsz", "abid", "blgp", "neg", "op_sel", "op_sel_hi"});
  b.expect_operands(p, m.op.scaled ? 6 : 4);
  if (!m.op.scaled && (p.has("op_sel") || p.has("op_sel_hi"))) Builder::refuse("op_sel without scales");
  in.dst = b.vector_destination(p.operands[0], m.op.cd_regs);
  auto registers = [&](int k, int words) {
    in.src[k].kind = Operand::Kind::vector;
    in.src[k].reg = b.vector_destination(p.operands[1 + k], words);
  };
  registers(0, m.op.a_regs);
  registers(1, m.op.b_regs);
  if (p.operands[3].kind == ParsedOperand::Kind::vector) {
    registers(2, m.op.cd_regs);
  } else {
    const Ty type = m.op.cd == MatrixAccumulator::f64 ? Ty::f64 : m.op.cd == MatrixAccumulator::f32 ? Ty::f32 : Ty::i32;
    in.src[2] = b.scalar_source(p.operands[3], type);
    if (in.src[2].kind != Operand::Kind::constant) Builder::refuse("a scalar register as accumulator");
  }
  if (m.op.scaled) {
    for (int k = 0; k < 2; ++k) {
      Inst scratch;
      b.vector_source(scratch, 0, p.operands[4 + k], Ty::b32);
      m.scale[k] = scratch.src[0];
      m.scale_rows[k] = scratch.rows[0];
      auto bit = [&](const char* name) {
        auto found = p.modifiers.find(name);
        return found == p.modifiers.end() ? 0u : static_cast<unsigned>(found->second.at(static_cast<size_t>(k)));
      };
      m.scale_byte[k] = bit("op_sel") + 2 * bit("op_sel_hi");
    }
  }
  in.klass = Klass::mfma;
  in.cost = m.op.passes;
  in.nsrc = 3;
  in.extra = b.own(m);
  in.fn = run;
  return true;
}

}  // namespace gfx950::exec
