#include "params.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gfx950/gfx950.h"
#include "json.h"

namespace gfx950::timing {
namespace {

struct Entry {
  const char* name;
  double MachineParams::* field;
  double standard;
  const char* source;
};

const Entry kEntries[] = {
#define X(name, value, source) {#name, &MachineParams::name, value, source},
#include "params.inc"
#undef X
};

[[noreturn]] void bad(const std::string& what) {
  throw Error(ErrorKind::invalid_launch, "GFX950_TIMING_PARAMS: " + what);
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

void MachineParams::set(const std::string& name, double value) {
  for (const Entry& entry : kEntries) {
    if (name != entry.name) continue;
    if (!std::isfinite(value) || value < 0) bad(name + "=" + std::to_string(value) + ": expected a number from 0 up");
    // What divides must not be zero.
    if (value == 0 && entry.standard > 1 && name != "clock_drop_ghz" && name.find("_clk") == std::string::npos &&
        name.find("_ns") == std::string::npos) {
      bad(name + "=0: expected a number above 0");
    }
    this->*entry.field = value;
    return;
  }
  bad("no parameter '" + name + "'; timing/params.inc lists them");
}

MachineParams MachineParams::parse(const std::string& text) {
  std::string list = text;
  if (text.find('=') == std::string::npos) {
    std::ifstream file(text);
    if (!file) bad("'" + text + "' is neither a list of name=value nor a file that can be read");
    std::stringstream content;
    content << file.rdbuf();
    list = content.str();
  }
  MachineParams params;
  std::string line;
  std::stringstream lines(list);
  while (std::getline(lines, line)) {
    std::stringstream items(line.substr(0, line.find('#')));
    std::string item;
    while (std::getline(items, item, ',')) {
      item = trimmed(item);
      if (item.empty()) continue;
      const size_t equals = item.find('=');
      if (equals == std::string::npos) bad("'" + item + "': expected name=value");
      const std::string value = trimmed(item.substr(equals + 1));
      char* end = nullptr;
      const double number = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != 0) bad("'" + item + "': expected name=value with a number");
      params.set(trimmed(item.substr(0, equals)), number);
    }
  }
  return params;
}

MachineParams MachineParams::from_environment() {
  const char* text = std::getenv("GFX950_TIMING_PARAMS");
  return text == nullptr || *text == 0 ? MachineParams{} : parse(text);
}

std::string MachineParams::json() const {
  Json out;
  out.open('{');
  for (const Entry& entry : kEntries) {
    out.key(entry.name).open('{');
    out.field("value", this->*entry.field).field("default", entry.standard).field("source", entry.source);
    out.close('}');
  }
  out.close('}');
  return out.text();
}

}  // namespace gfx950::timing

namespace gfx950 {

std::string timing_parameters_json() { return timing::MachineParams::from_environment().json(); }

}  // namespace gfx950
