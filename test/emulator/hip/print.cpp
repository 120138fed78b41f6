// printf as ockl's messages hold it. The format string and each string argument end in a null character and are padded
// to 8 bytes; integers, pointers and floating-point arguments, all of the latter f64, take 8 bytes each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hostcall.h"

namespace gfx950::hip {
namespace {

constexpr long kWidest = 4096;  // of one argument

class Reader {
 public:
  Reader(const std::vector<uint64_t>& words, size_t next) : words_(words), next_(next) {}

  bool word(uint64_t& value) {
    if (next_ >= words_.size()) return false;
    value = words_[next_++];
    return true;
  }
  // A missing null character ends at the message's end.
  bool text(std::string& value) {
    if (next_ >= words_.size()) return false;
    const char* begin = reinterpret_cast<const char*>(words_.data() + next_);
    const size_t limit = 8 * (words_.size() - next_);
    value.assign(begin, strnlen(begin, limit));
    next_ = std::min(words_.size(), next_ + value.size() / 8 + 1);
    return true;
  }

 private:
  const std::vector<uint64_t>& words_;
  size_t next_;
};

template <class T>
void print(std::string& out, const std::string& spec, T value) {
  char buffer[2 * kWidest + 512];  // an f64 has at most 309 digits before the point
  const int size = std::snprintf(buffer, sizeof buffer, spec.c_str(), value);
  if (size > 0) out.append(buffer, std::min<size_t>(static_cast<size_t>(size), sizeof buffer - 1));
}

// The digits or the star at `at`; no digits are 0. False: wider than anything that is printed.
bool number(const std::string& format, size_t& at, Reader& arguments, long& value) {
  value = 0;
  if (at < format.size() && format[at] == '*') {
    uint64_t word;
    if (!arguments.word(word)) return false;
    value = static_cast<int32_t>(word);
    ++at;
  } else {
    for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
      value = std::min(value * 10 + (format[at] - '0'), kWidest + 1);
    }
  }
  return value <= kWidest && value >= -kWidest;
}

}  // namespace

std::string format_message(const std::vector<uint64_t>& message, size_t first, std::string& out) {
  Reader arguments(message, first);
  std::string format;
  if (!arguments.text(format)) return "printf without a format";
  const std::string bad = "printf format '" + format.substr(0, 200) + "'";
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      const size_t next = std::min(format.find('%', at), format.size());
      out.append(format, at, next - at);
      at = next;
      continue;
    }
    if (++at < format.size() && format[at] == '%') {
      out += format[at++];
      continue;
    }
    std::string spec = "%";
    while (at < format.size() && std::strchr("-+ #0", format[at]) != nullptr) spec += format[at++];
    long width, precision = -1;
    if (!number(format, at, arguments, width)) return bad;
    if (at < format.size() && format[at] == '.' && !number(format, ++at, arguments, precision)) return bad;
    if (width < 0) spec += '-';  // a star's
    if (width != 0) spec += std::to_string(std::abs(width));
    if (precision >= 0) spec += "." + std::to_string(precision);
    std::string size;
    while (at < format.size() && std::strchr("hlLqjzt", format[at]) != nullptr) size += format[at++];
    if (at == format.size()) return bad;
    const char conversion = format[at++];
    uint64_t word = 0;
    if (conversion == 's') {
      std::string text;
      if (!arguments.text(text)) return bad + ": an argument is missing";
      if (precision >= 0) text.resize(std::min(text.size(), static_cast<size_t>(precision)));
      const size_t fill = static_cast<size_t>(std::max(0L, std::abs(width) - static_cast<long>(text.size())));
      const bool left = spec.find('-') != std::string::npos;
      out += left ? text + std::string(fill, ' ') : std::string(fill, ' ') + text;
      continue;
    }
    if (std::strchr("diouxXcpfFeEgGaAn", conversion) == nullptr) return bad;
    if (!arguments.word(word)) return bad + ": an argument is missing";
    if (conversion == 'n') continue;  // as ROCm's runtime does
    if (std::strchr("fFeEgGaA", conversion) != nullptr) {
      double value;
      std::memcpy(&value, &word, sizeof value);
      print(out, spec + conversion, value);
    } else if (conversion == 'p') {
      print(out, spec + conversion, reinterpret_cast<void*>(word));
    } else if (conversion == 'c') {
      print(out, spec + conversion, static_cast<int>(word));
    } else if (size.empty()) {
      print(out, spec + conversion, static_cast<int>(word));
    } else if (size[0] == 'h') {
      print(out, spec + size + conversion, static_cast<int>(word));
    } else {
      print(out, spec + "ll" + conversion, static_cast<long long>(word));
    }
  }
  return "";
}

}  // namespace gfx950::hip
