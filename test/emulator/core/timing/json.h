// Writes JSON: nothing but what the reports need.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace gfx950::timing {

class Json {
 public:
  Json& open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  Json& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  Json& key(const std::string& name) {
    separate();
    quote(name);
    text_ += ": ";
    first_ = true;  // no comma before the value
    return *this;
  }
  Json& value(double number) {
    separate();
    char buffer[32];
    // Enough digits to compare two runs by; whole numbers without a point.
    if (std::abs(number) < 1e15 && number == std::floor(number)) {
      std::snprintf(buffer, sizeof buffer, "%.0f", number);
    } else {
      std::snprintf(buffer, sizeof buffer, "%.9g", number);
    }
    text_ += std::isfinite(number) ? buffer : "null";
    return *this;
  }
  Json& value(const std::string& string) {
    separate();
    quote(string);
    return *this;
  }
  Json& value(const char* string) { return value(std::string(string)); }
  template <class T>
  Json& field(const std::string& name, const T& item) {
    key(name);
    if constexpr (std::is_arithmetic_v<T>)
      return value(static_cast<double>(item));
    else
      return value(item);
  }
  const std::string& text() const { return text_; }

 private:
  void separate() {
    if (!first_) text_ += ", ";
    first_ = false;
  }
  void quote(const std::string& string) {
    text_ += '"';
    for (const char c : string) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", c);
        text_ += escape;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace gfx950::timing
