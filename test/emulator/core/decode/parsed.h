// One line of LLVM's disassembly, taken apart. Strict: a token this parser does not know is an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gfx950::decode {

struct ParsedOperand {
  enum class Kind { vector, scalar, integer, real, off, named, call };
  Kind kind = Kind::named;
  uint16_t reg = 0;    // vector: row, acc from 256; scalar: hardware number
  uint16_t count = 1;  // registers
  int64_t integer = 0;
  double real = 0;
  bool hex = false;  // printed as 0x...: a literal, not an inline constant
  bool neg = false, abs = false, sext = false;
  std::string name;                    // named: as printed; call: "name(" without arguments
  std::vector<std::string> arguments;  // call
};

enum class Encoding : uint8_t { other, e32, e64, dpp, sdwa };

struct Parsed {
  std::string text;      // mnemonic and operands, single spaces
  std::string mnemonic;  // as printed
  std::string base;      // without _e32, _e64, _dpp, _sdwa
  Encoding encoding = Encoding::other;
  std::vector<ParsedOperand> operands;
  std::map<std::string, std::vector<int64_t>> modifiers;  // "offset" -> {16}; a flag maps to {}
  std::vector<std::string> tokens;                        // modifiers that are neither, in order
  uint32_t words[5] = {};
  uint32_t size = 0;  // bytes

  bool has(const char* modifier) const { return modifiers.count(modifier) != 0; }
  int64_t value(const char* modifier, int64_t otherwise) const {
    auto found = modifiers.find(modifier);
    return found == modifiers.end() || found->second.empty() ? otherwise : found->second[0];
  }
};

// Throws std::invalid_argument that says which token is unknown.
Parsed parse(std::string_view line);

}  // namespace gfx950::decode
