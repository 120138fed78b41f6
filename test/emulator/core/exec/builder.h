// Turns one parsed instruction into an Inst. Every family registers a build function per mnemonic.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "../decode/parsed.h"
#include "inst.h"
#include "program.h"

namespace gfx950::exec {

class Builder;
struct Entry;
// Fills `in`, or calls Builder::refuse.
using Build = void (*)(Builder&, const decode::Parsed&, const Entry&, Inst& in);

enum EntryFlag : uint16_t {
  kReadsDst = 1,       // the destination is also the last source (v_fmac)
  kPreservesHigh = 2,  // a 16-bit result leaves the other half alone
  kWritesExec = 4,     // v_cmpx
  kIntegerClamp = 8,   // Entry::extra saturates where Entry::lanes wraps
};

// What a family says about a mnemonic; the fields mean what its build function wants them to.
struct Entry {
  Build build = nullptr;
  Lanes lanes = nullptr;
  Handler fast = nullptr;
  const void* extra = nullptr;
  Ty dst = Ty::none;
  Ty src[3] = {Ty::none, Ty::none, Ty::none};
  uint8_t nsrc = 0;
  uint8_t cost = 1;
  uint16_t flags = 0;
  int32_t value = 0;
};

// By the mnemonic without its encoding suffix.
using Registry = std::unordered_map<std::string, Entry>;
const Registry& registry();

class Builder {
 public:
  explicit Builder(Program& program) : program_(program) {}

  // Throws std::invalid_argument; the decoder adds kernel, pc and text.
  [[noreturn]] static void refuse(const std::string& why);

  void expect_operands(const decode::Parsed& p, size_t count) const;
  // Every modifier of `p` must be one of `names`.
  void allow_modifiers(const decode::Parsed& p, std::initializer_list<const char*> names) const;

  // Source `k` of `in`; also fills in.rows[k] for constants that vector instructions read.
  void vector_source(Inst& in, int k, const decode::ParsedOperand& o, Ty type);
  Operand scalar_source(const decode::ParsedOperand& o, Ty type) const;
  uint16_t vector_destination(const decode::ParsedOperand& o, int words) const;
  uint16_t scalar_destination(const decode::ParsedOperand& o, int words) const;

  template <class T>
  T* own(T value) {
    auto held = std::make_shared<T>(std::move(value));
    T* pointer = held.get();
    program_.owned.push_back(std::move(held));
    return pointer;
  }
  const uint32_t* constant_rows(uint64_t value, Ty type);

 private:
  static uint64_t constant_bits(const decode::ParsedOperand& o, Ty type);

  Program& program_;
  std::map<std::pair<uint64_t, int>, const uint32_t*> constants_;
};

// Each family's contribution; registry.cpp calls them all.
void register_salu(Registry& r);
void register_control(Registry& r);
void register_smem(Registry& r);
void register_valu_int(Registry& r);
void register_valu_float(Registry& r);
void register_valu_half(Registry& r);
void register_transcendental(Registry& r);
void register_convert(Registry& r);
void register_convert_scaled(Registry& r);
void register_compare(Registry& r);
void register_carry(Registry& r);
void register_packed(Registry& r);
void register_dot(Registry& r);
void register_sparse_matrix(Registry& r);
void register_lane(Registry& r);
void register_lds(Registry& r);
void register_global(Registry& r);
void register_buffer(Registry& r);
// Dense matrix instructions are known by mfma.h, not by the registry. False: `p` is none.
bool build_matrix(Builder& b, const decode::Parsed& p, Inst& in);

}  // namespace gfx950::exec
