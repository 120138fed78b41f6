#include "parsed.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace gfx950::decode {
namespace {

bool ends_with(const std::string& text, const char* suffix) {
  const size_t n = std::char_traits<char>::length(suffix);
  return text.size() >= n && text.compare(text.size() - n, n, suffix) == 0;
}

[[noreturn]] void unknown(const std::string& what, const std::string& token) {
  throw std::invalid_argument("unknown " + what + " '" + token + "'");
}

bool parse_integer(const std::string& token, int64_t& value, bool& hex) {
  const char* start = token.c_str();
  const bool negative = *start == '-';
  if (negative) ++start;
  if (!std::isdigit(static_cast<unsigned char>(*start))) return false;
  hex = start[0] == '0' && start[1] == 'x';
  char* end = nullptr;
  const uint64_t magnitude = std::strtoull(start, &end, hex ? 16 : 10);
  if (*end != 0) return false;
  value = negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  return true;
}

// "v12", "a[4:7]", "s[2:3]": prefix letters, then a number or a range.
bool parse_register(const std::string& token, const char* prefix, unsigned& first, unsigned& count) {
  const size_t n = std::char_traits<char>::length(prefix);
  if (token.compare(0, n, prefix) != 0 || token.size() == n) return false;
  const char* p = token.c_str() + n;
  char* end = nullptr;
  if (*p == '[') {
    first = static_cast<unsigned>(std::strtoul(p + 1, &end, 10));
    unsigned last = first;
    if (*end == ':') last = static_cast<unsigned>(std::strtoul(end + 1, &end, 10));
    if (*end != ']' || end[1] != 0 || last < first) return false;
    count = last - first + 1;
    return true;
  }
  if (!std::isdigit(static_cast<unsigned char>(*p))) return false;
  first = static_cast<unsigned>(std::strtoul(p, &end, 10));
  count = 1;
  return *end == 0;
}

const std::map<std::string, std::pair<uint16_t, uint16_t>>& named_scalars() {
  static const std::map<std::string, std::pair<uint16_t, uint16_t>> table = {
      {"vcc", {106, 2}},  {"vcc_lo", {106, 1}},  {"vcc_hi", {107, 1}}, {"m0", {124, 1}},
      {"exec", {126, 2}}, {"exec_lo", {126, 1}}, {"exec_hi", {127, 1}}};
  return table;
}

std::vector<std::string> split(const std::string& text, char separator) {
  // Separators inside brackets do not count.
  std::vector<std::string> parts;
  std::string current;
  int depth = 0;
  for (char c : text) {
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == separator && depth == 0) {
      parts.push_back(current);
      current.clear();
    } else {
      current += c;
    }
  }
  parts.push_back(current);
  return parts;
}

std::string trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

ParsedOperand parse_operand(std::string token) {
  ParsedOperand o;
  bool literal = false;
  // Wrappers of source modifiers, outermost first.
  for (bool again = true; again;) {
    again = false;
    auto unwrap = [&](const char* open, size_t open_size, char close, bool& flag) {
      if (token.compare(0, open_size, open) == 0 && token.back() == close && token.size() > open_size + 1) {
        token = token.substr(open_size, token.size() - open_size - 1);
        flag = again = true;
      }
    };
    if (token.size() > 1 && token[0] == '-' && !std::isdigit(static_cast<unsigned char>(token[1]))) {
      token.erase(0, 1);
      o.neg = again = true;
      continue;
    }
    unwrap("|", 1, '|', o.abs);
    unwrap("neg(", 4, ')', o.neg);
    unwrap("abs(", 4, ')', o.abs);
    unwrap("sext(", 5, ')', o.sext);
    // A literal whose value an inline constant has too: "lit(0xffffffff)".
    unwrap("lit(", 4, ')', literal);
  }
  unsigned first = 0, count = 0;
  if (parse_register(token, "v", first, count)) {
    o.kind = ParsedOperand::Kind::vector;
    o.reg = static_cast<uint16_t>(first);
    o.count = static_cast<uint16_t>(count);
    if (first + count > 256) unknown("register", token);
    return o;
  }
  if (parse_register(token, "a", first, count)) {
    o.kind = ParsedOperand::Kind::vector;
    o.reg = static_cast<uint16_t>(256 + first);
    o.count = static_cast<uint16_t>(count);
    if (first + count > 256) unknown("register", token);
    return o;
  }
  if (parse_register(token, "s", first, count)) {
    o.kind = ParsedOperand::Kind::scalar;
    o.reg = static_cast<uint16_t>(first);
    o.count = static_cast<uint16_t>(count);
    if (first + count > 102) unknown("register", token);
    return o;
  }
  if (auto named = named_scalars().find(token); named != named_scalars().end()) {
    o.kind = ParsedOperand::Kind::scalar;
    o.reg = named->second.first;
    o.count = named->second.second;
    return o;
  }
  if (parse_integer(token, o.integer, o.hex)) {
    o.hex = o.hex || literal;
    o.kind = ParsedOperand::Kind::integer;
    return o;
  }
  char* end = nullptr;
  o.real = std::strtod(token.c_str(), &end);
  if (end != token.c_str() && *end == 0) {
    o.kind = ParsedOperand::Kind::real;
    return o;
  }
  if (token == "off") {
    o.kind = ParsedOperand::Kind::off;
    return o;
  }
  const size_t open = token.find('(');
  if (open != std::string::npos && token.back() == ')') {
    o.kind = ParsedOperand::Kind::call;
    o.name = token.substr(0, open);
    for (const std::string& part : split(token.substr(open + 1, token.size() - open - 2), ',')) {
      o.arguments.push_back(trim(part));
    }
    return o;
  }
  o.kind = ParsedOperand::Kind::named;
  o.name = token;
  return o;
}

void parse_modifier(const std::string& token, Parsed& out) {
  const size_t colon = token.find(':');
  if (colon == std::string::npos) {
    out.modifiers[token] = {};
    return;
  }
  const std::string name = token.substr(0, colon);
  std::string rest = token.substr(colon + 1);
  std::vector<int64_t> values;
  bool hex = false;
  int64_t value = 0;
  if (!rest.empty() && rest.front() == '[' && rest.back() == ']') {
    for (const std::string& part : split(rest.substr(1, rest.size() - 2), ',')) {
      if (!parse_integer(trim(part), value, hex)) unknown("modifier", token);
      values.push_back(value);
    }
  } else if (parse_integer(rest, value, hex)) {
    values.push_back(value);
  } else {
    out.tokens.push_back(token);  // "dst_sel:WORD_1", "offset:swizzle(...)": the raw bits say the same
    out.modifiers[name] = {};
    return;
  }
  out.modifiers[name] = values;
}

}  // namespace

Parsed parse(std::string_view line) {
  Parsed out;
  for (char c : line) {
    if (c == '/' || c == ';') break;  // LLVM's comments
    out.text += c == '\t' || c == '\n' ? ' ' : c;
  }
  out.text = trim(out.text);
  const size_t space = out.text.find(' ');
  out.mnemonic = out.text.substr(0, space);
  out.base = out.mnemonic;
  const std::pair<const char*, Encoding> suffixes[] = {
      {"_e32", Encoding::e32}, {"_e64", Encoding::e64}, {"_dpp", Encoding::dpp}, {"_sdwa", Encoding::sdwa}};
  for (const auto& [suffix, encoding] : suffixes) {
    if (ends_with(out.mnemonic, suffix)) {
      out.base.resize(out.base.size() - 4 - (suffix[4] != 0));
      out.encoding = encoding;
    }
  }
  if (space == std::string::npos) return out;
  const std::string rest = trim(out.text.substr(space));
  // Operands are separated by ", "; modifiers follow the last one, separated by spaces.
  std::vector<std::string> parts = split(rest, ',');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<std::string> words = split(trim(parts[i]), ' ');
    for (size_t k = 0; k < words.size(); ++k) {
      if (words[k].empty()) continue;
      if (k == 0) {
        // An instruction without operands may still have modifiers ("buffer_wbl2 sc1").
        const bool modifier_first = parts.size() == 1 && out.base.compare(0, 7, "buffer_") == 0 &&
                                    (words[k].compare(0, 2, "sc") == 0 || words[k] == "nt");
        if (modifier_first) {
          parse_modifier(words[k], out);
        } else {
          out.operands.push_back(parse_operand(words[k]));
        }
        continue;
      }
      const bool is_call = words[k].find('(') != std::string::npos && words[k].find(':') == std::string::npos;
      if (is_call) {
        out.operands.push_back(parse_operand(words[k]));  // "vmcnt(0) lgkmcnt(0)"
      } else if (i + 1 < parts.size() && words[k] != "off") {
        unknown("token", words[k]);
      } else {
        parse_modifier(words[k], out);
      }
    }
  }
  return out;
}

}  // namespace gfx950::decode
