#include "builder.h"

#include <immintrin.h>

#include <cstring>
#include <stdexcept>

#include "wave.h"

namespace gfx950::exec {

using decode::ParsedOperand;

void Builder::refuse(const std::string& why) { throw std::invalid_argument(why); }

void Builder::expect_operands(const decode::Parsed& p, size_t count) const {
  if (p.operands.size() != count) {
    refuse("has " + std::to_string(p.operands.size()) + " operands, expected " + std::to_string(count));
  }
}

void Builder::allow_modifiers(const decode::Parsed& p, std::initializer_list<const char*> names) const {
  for (const auto& [name, values] : p.modifiers) {
    bool known = false;
    for (const char* allowed : names) known = known || name == allowed;
    if (!known) refuse("modifier '" + name + "' is not modelled for it");
  }
}

uint64_t Builder::constant_bits(const ParsedOperand& o, Ty type) {
  if (o.kind == ParsedOperand::Kind::integer) {
    const uint64_t bits = static_cast<uint64_t>(o.integer);
    if (!o.hex) return bits;  // inline: sign-extended to the operand
    const uint32_t low = static_cast<uint32_t>(bits);
    if (type == Ty::f64) return static_cast<uint64_t>(low) << 32;  // a literal is the high half of a double
    if (type == Ty::i64) return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(low)));
    return low;
  }
  // An inline float has the operand's width.
  if (words_of(type) == 2 && type != Ty::pkf32) {
    uint64_t bits;
    std::memcpy(&bits, &o.real, 8);
    return bits;
  }
  const float single = static_cast<float>(o.real);
  if (is_16bit(type) || type == Ty::pk16 || type == Ty::pkf16) {
    if (type == Ty::bf16) refuse("inline float for a bf16 operand");
    return static_cast<uint16_t>(_cvtss_sh(single, _MM_FROUND_TO_NEAREST_INT));
  }
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  return bits;
}

const uint32_t* Builder::constant_rows(uint64_t value, Ty type) {
  const int kind = type == Ty::mask ? 3 : words_of(type);
  auto [slot, is_new] = constants_.try_emplace({value, kind}, nullptr);
  if (is_new) {
    struct alignas(64) Rows {
      uint32_t row[2][kLanes];
    };
    Rows* rows = own(Rows{});
    if (type == Ty::mask) {
      Wave::expand_mask(value, rows->row[0]);
    } else {
      broadcast(static_cast<uint32_t>(value), rows->row[0]);
      broadcast(static_cast<uint32_t>(value >> 32), rows->row[1]);
    }
    slot->second = rows->row[0];
  }
  return slot->second;
}

Operand Builder::scalar_source(const ParsedOperand& o, Ty type) const {
  Operand out;
  out.type = type;
  switch (o.kind) {
    case ParsedOperand::Kind::scalar:
      if (o.count != words_of(type)) refuse("scalar operand of " + std::to_string(o.count) + " registers");
      out.kind = Operand::Kind::scalar;
      out.reg = o.reg;
      return out;
    case ParsedOperand::Kind::integer:
    case ParsedOperand::Kind::real:
      out.kind = Operand::Kind::constant;
      out.value = constant_bits(o, type);
      return out;
    case ParsedOperand::Kind::named:
      if (o.name == "scc" || o.name == "src_scc") {
        out.kind = Operand::Kind::scc;
        return out;
      }
      if (o.name == "vccz" || o.name == "src_vccz") {
        out.kind = Operand::Kind::vccz;
        return out;
      }
      if (o.name == "execz" || o.name == "src_execz") {
        out.kind = Operand::Kind::execz;
        return out;
      }
      refuse("operand '" + o.name + "' is not modelled");
    default:
      refuse("expected a scalar operand");
  }
}

void Builder::vector_source(Inst& in, int k, const ParsedOperand& o, Ty type) {
  Operand& out = in.src[k];
  if (o.kind == ParsedOperand::Kind::vector) {
    if (type == Ty::mask) refuse("a vector register where a lane mask is expected");
    if (o.count != words_of(type))
      refuse("operand of " + std::to_string(o.count) + " vector registers, expected " + std::to_string(words_of(type)));
    out.kind = Operand::Kind::vector;
    out.reg = o.reg;
    out.type = type;
  } else {
    out = scalar_source(o, type);
    if (out.kind == Operand::Kind::constant) in.rows[k] = constant_rows(out.value, type);
  }
  out.neg = o.neg;
  out.abs = o.abs;
  out.sext = o.sext;
}

uint16_t Builder::vector_destination(const ParsedOperand& o, int words) const {
  if (o.kind != ParsedOperand::Kind::vector || o.count != words) {
    refuse("destination must be " + std::to_string(words) + " vector register(s)");
  }
  return o.reg;
}

uint16_t Builder::scalar_destination(const ParsedOperand& o, int words) const {
  if (o.kind != ParsedOperand::Kind::scalar || o.count != words) {
    refuse("destination must be " + std::to_string(words) + " scalar register(s)");
  }
  return o.reg;
}

}  // namespace gfx950::exec
