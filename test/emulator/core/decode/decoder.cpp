#include "decoder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "../exec/builder.h"
#include "../exec/index_mode.h"
#include "../hazards/usage.h"
#include "disassembler.h"
#include "gfx950/gfx950.h"
#include "parsed.h"

namespace gfx950::decode {
namespace {

std::string hex(int64_t value) {
  if (value < 0) return "-" + hex(-value);
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

bool is_relative_branch(const Parsed& parsed, const exec::Inst& inst) {
  return inst.klass == exec::Klass::branch && parsed.base.compare(0, 2, "s_") == 0 &&
         parsed.base.find("pc") == std::string::npos;
}

// Follows LLVM's way to the address of a function: s_getpc_b64 s[n:n+1], s_add_u32 s[n], its low half, s_addc_u32
// s[n+1], its high half.
class FunctionAddress {
 public:
  // True if `p` ends one: `target`, in bytes from the kernel's start.
  bool see(const Parsed& p, int64_t behind, int64_t& target) {
    const bool getpc = p.base == "s_getpc_b64" && p.operands.size() == 1;
    if (getpc) {
      *this = {};
      reg_ = p.operands[0].reg;
      from_ = behind;
      step_ = 1;
      return false;
    }
    const char* expected = step_ == 1 ? "s_add_u32" : step_ == 2 ? "s_addc_u32" : "";
    const int reg = reg_ + step_ - 1;
    const bool fits = p.base == expected && p.operands.size() == 3 && is(p.operands[0], reg) &&
                      is(p.operands[1], reg) && p.operands[2].kind == ParsedOperand::Kind::integer;
    if (!fits) {
      step_ = 0;
      return false;
    }
    const uint64_t half = static_cast<uint32_t>(p.operands[2].integer);
    distance_ |= step_ == 1 ? half : half << 32;
    if (step_++ == 1) return false;
    step_ = 0;
    target = static_cast<int64_t>(static_cast<uint64_t>(from_) + distance_);
    return true;
  }

 private:
  static bool is(const ParsedOperand& o, int reg) { return o.kind == ParsedOperand::Kind::scalar && o.reg == reg; }

  int step_ = 0, reg_ = 0;
  int64_t from_ = 0;
  uint64_t distance_ = 0;
};

class Decoder {
 public:
  Decoder(const std::string& name, const uint8_t* code, uint64_t size, Around around)
      : name_(name), code_(code), size_(static_cast<int64_t>(size)), around_(around) {}

  std::unique_ptr<exec::Program> run(int64_t entry) {
    auto program = std::make_unique<exec::Program>();
    program->kernel = name_;
    program->base = reinterpret_cast<uint64_t>(code_);
    exec::Builder builder(*program);
    struct Way {
      int64_t at;
      bool function;  // not the kernel itself
    };
    std::vector<Way> todo = {{entry, false}};
    while (!todo.empty()) {
      auto [at, function] = todo.back();
      todo.pop_back();
      FunctionAddress address;
      bool indexing = false;  // between s_set_gpr_idx_on and _off
      for (;;) {
        if (auto known = found_.find(at); known != found_.end()) {
          if (indexing != known->second.indexing) refuse(at, known->second.text, "in and out of the index mode");
          break;
        }
        const Parsed parsed = read(at, function);
        exec::Inst inst = build(builder, parsed, at);
        int64_t callee;
        if (address.see(parsed, at + parsed.size, callee) && is_function(callee)) todo.push_back({callee, true});
        if (indexing) index(parsed, inst, at);
        const bool was_indexing = indexing;
        if (parsed.base == "s_set_gpr_idx_on") indexing = true;
        if (parsed.base == "s_set_gpr_idx_off") indexing = false;
        const bool relative = is_relative_branch(parsed, inst);
        if (relative) {
          inst.offset += static_cast<int32_t>(at);  // bytes from the start; an index in the end
          todo.push_back({inst.offset, function});
        }
        const bool ends = parsed.base == "s_endpgm" || parsed.base == "s_branch" || parsed.base == "s_setpc_b64";
        found_[at] = {inst,     parsed.text,  hazards::usage_of(parsed, inst),
                      relative, was_indexing, ends ? kNowhere : at + parsed.size};
        if (ends) break;
        at += parsed.size;
      }
    }
    finish(*program, entry);
    return program;
  }

  // Throws std::invalid_argument that says what is not modelled.
  static exec::Inst build(exec::Builder& builder, const Parsed& parsed) {
    exec::Inst inst;
    if (exec::build_matrix(builder, parsed, inst)) return inst;
    const exec::Registry& table = exec::registry();
    auto entry = table.find(parsed.base);
    if (entry == table.end()) exec::Builder::refuse("this instruction is not modelled");
    entry->second.build(builder, parsed, entry->second, inst);
    if (inst.fn == nullptr) exec::Builder::refuse("this form is not modelled");
    return inst;
  }

 private:
  struct Found {
    exec::Inst inst;
    std::string text;
    hazards::Usage usage;
    bool branch;
    bool indexing;  // its vector registers are chosen by M0
    int64_t next;   // where control falls through to, or kNowhere
  };
  static constexpr int64_t kNowhere = INT64_MIN;

  int64_t first() const { return -static_cast<int64_t>(around_.before); }
  int64_t end() const { return size_ + static_cast<int64_t>(around_.behind); }
  bool is_function(int64_t at) const { return at >= first() && at < end() && (at < 0 || at >= size_); }

  Parsed read(int64_t at, bool function) const {
    const bool inside = function ? is_function(at) : at >= 0 && at < size_;
    if (!inside || at % 4 != 0) {
      throw Error(ErrorKind::unsupported_instruction, "kernel '" + name_ + "': control reaches " + hex(at) +
                                                          ", outside its " + std::to_string(size_) + " bytes of code");
    }
    std::string line;
    const int64_t limit = !function ? size_ : at < 0 ? 0 : end();
    const size_t left = static_cast<size_t>(std::min<int64_t>(limit - at, 20));
    const size_t used = disassemble(code_ + at, left, static_cast<uint64_t>(at), line);
    uint32_t words[5] = {};
    std::memcpy(words, code_ + at, left);
    if (used == 0) refuse(at, "no instruction", "encoding " + hex(words[0]) + " " + hex(words[1]));
    try {
      Parsed parsed = parse(line);
      std::memcpy(parsed.words, words, sizeof words);
      parsed.size = static_cast<uint32_t>(used);
      return parsed;
    } catch (const std::invalid_argument& error) {
      refuse(at, line, error.what());
    }
  }

  exec::Inst build(exec::Builder& builder, const Parsed& parsed, int64_t at) const {
    try {
      return build(builder, parsed);
    } catch (const std::invalid_argument& error) {
      refuse(at, parsed.text, error.what());
    }
  }

  void index(const Parsed& parsed, exec::Inst& inst, int64_t at) const {
    if (parsed.base.compare(0, 14, "s_set_gpr_idx_") == 0 || parsed.base == "s_nop") return;
    try {
      if (parsed.base != "v_mov_b32") exec::Builder::refuse("another instruction than v_mov_b32 in the index mode");
      exec::index_move(inst);
    } catch (const std::invalid_argument& error) {
      refuse(at, parsed.text, error.what());
    }
  }

  [[noreturn]] void refuse(int64_t at, const std::string& text, const std::string& why) const {
    throw Error(ErrorKind::unsupported_instruction,
                "kernel '" + name_ + "', pc " + hex(at) + ": '" + text + "': " + why);
  }

  // Lays the instructions out in address order and turns branch offsets into indices.
  void finish(exec::Program& program, int64_t entry) {
    std::map<int64_t, uint32_t> index;
    for (const auto& [at, found] : found_) {
      index[at] = static_cast<uint32_t>(program.code.size());
      program.code.push_back(found.inst);
      program.offset.push_back(static_cast<int32_t>(at));
      program.text.push_back(found.text);
      program.usage.push_back(found.usage);
      program.interrupts = program.interrupts || found.text.compare(0, 9, "s_sendmsg") == 0;
    }
    for (auto here = found_.begin(); here != found_.end(); ++here) {
      auto after = std::next(here);
      const int64_t next = here->second.next;
      if (next != kNowhere && (after == found_.end() || after->first != next)) {
        refuse(here->first, here->second.text, "control enters the middle of an instruction");
      }
    }
    size_t k = 0;
    for (auto& [at, found] : found_) {
      if (found.branch) program.code[k].offset = static_cast<int32_t>(index.at(found.inst.offset));
      ++k;
    }
    program.entry = index.at(entry);
  }

  const std::string& name_;
  const uint8_t* code_;
  int64_t size_;
  Around around_;
  std::map<int64_t, Found> found_;
};

}  // namespace

Examined examine(const uint8_t* code, uint64_t size, uint64_t at) {
  Examined out;
  const uint64_t left = std::min<uint64_t>(size - at, 20);
  out.size = static_cast<uint32_t>(disassemble(code + at, left, at, out.text));
  if (out.size == 0) {
    out.refusal = "no instruction";
    return out;
  }
  std::replace(out.text.begin(), out.text.end(), '\t', ' ');  // the parser may not get as far as to do it
  out.text.erase(0, out.text.find_first_not_of(' '));
  try {
    Parsed parsed = parse(out.text);
    std::memcpy(parsed.words, code + at, left);
    parsed.size = out.size;
    out.text = parsed.text;
    out.base = parsed.base;
    exec::Program program;
    exec::Builder builder(program);
    const exec::Inst inst = Decoder::build(builder, parsed);
    out.klass = inst.klass;
    out.is_branch = is_relative_branch(parsed, inst);
    out.target = static_cast<int64_t>(at) + inst.offset;
  } catch (const std::invalid_argument& error) {
    out.refusal = error.what();
  }
  return out;
}

std::unique_ptr<exec::Program> decode_kernel(const std::string& name, const uint8_t* code, uint64_t size,
                                             uint64_t entry, Around around) {
  return Decoder(name, code, size, around).run(static_cast<int64_t>(entry));
}

}  // namespace gfx950::decode
