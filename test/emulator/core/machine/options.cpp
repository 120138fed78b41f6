#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "../timing/params.h"
#include "gfx950/gfx950.h"

namespace gfx950 {
namespace {

[[noreturn]] void bad(const char* name, const std::string& value, const char* expected) {
  throw Error(ErrorKind::invalid_launch, std::string(name) + "='" + value + "': expected " + expected);
}

// Empty counts as not set.
bool read(const char* name, std::string& value) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return false;
  value = text;
  return true;
}

bool parse_number(const std::string& text, int base, uint64_t& number) {
  if (text.empty() || !std::isxdigit(static_cast<unsigned char>(text[0]))) return false;
  char* end = nullptr;
  errno = 0;
  number = std::strtoull(text.c_str(), &end, base);
  return *end == 0 && errno == 0;
}

// "kernel[:workgroup]", or with a breakpoint "kernel:pc[:workgroup]".
Watch parse_watch(const char* name, const std::string& value, bool breakpoint) {
  const char* expected = breakpoint ? "KERNEL:PC or KERNEL:PC:WORKGROUP (part of a kernel's name, hexadecimal, decimal)"
                                    : "KERNEL or KERNEL:WORKGROUP (part of a kernel's name, decimal)";
  std::vector<std::string> parts(1);
  for (char c : value) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const size_t least = breakpoint ? 2 : 1;
  if (parts[0].empty() || parts.size() < least || parts.size() > least + 1) bad(name, value, expected);
  Watch watch;
  watch.kernel = parts[0];
  if (breakpoint && !parse_number(parts[1], 16, watch.pc)) bad(name, value, expected);
  if (parts.size() > least && !parse_number(parts[least], 10, watch.workgroup)) bad(name, value, expected);
  return watch;
}

}  // namespace

RunOptions RunOptions::from_environment() {
  RunOptions options;
  std::string value;
  if (read("GFX950_SCHEDULE", value)) {
    if (value == "run_to_barrier") {
      options.schedule = Schedule::run_to_barrier;
    } else if (value == "round_robin") {
      options.schedule = Schedule::round_robin;
    } else if (value.compare(0, 7, "random:") == 0 && parse_number(value.substr(7), 10, options.seed)) {
      options.schedule = Schedule::random;
    } else {
      bad("GFX950_SCHEDULE", value, "run_to_barrier, round_robin or random:SEED");
    }
  }
  if (read("GFX950_CHECK", value)) {
    if (value != "0" && value != "1" && value != "2")
      bad("GFX950_CHECK", value, "0 or 1, or 2 for uninitialised LDS too");
    options.check = value != "0";
    options.check_uninitialised = value == "2";
  }
  if (read("GFX950_THREADS", value)) {
    char* end = nullptr;
    errno = 0;
    const long threads = std::strtol(value.c_str(), &end, 10);
    if (*end != 0 || errno != 0 || threads < 0 || threads > 1024)
      bad("GFX950_THREADS", value, "0 (one per core) to 1024");
    options.threads = static_cast<unsigned>(threads);
  }
  if (read("GFX950_TIMEOUT", value)) {
    char* end = nullptr;
    const double seconds = std::strtod(value.c_str(), &end);
    // The limit is what the host's clock can add to its present time, with room.
    if (*end != 0 || !(seconds > 0) || !(seconds <= 1e9)) bad("GFX950_TIMEOUT", value, "seconds above 0, up to 1e9");
    options.timeout_seconds = seconds;
  }
  if (read("GFX950_TRACE", value)) options.trace = parse_watch("GFX950_TRACE", value, false);
  if (read("GFX950_BREAK", value)) options.break_at = parse_watch("GFX950_BREAK", value, true);
  read("GFX950_TRACE_FILE", options.trace_file);
  timing::MachineParams::from_environment();  // refused here, before the first launch reads them
  read("GFX950_PROFILE", options.profile_file);
  if (read("GFX950_PROFILE_TIMELINE", value)) {
    if (value != "0" && value != "1") bad("GFX950_PROFILE_TIMELINE", value, "0 or 1");
    constexpr size_t kEvents = 50000;  // of one compute unit: a few rounds of a loop, and a file that can be read
    if (value == "1") options.timeline_events = kEvents;
  }
  return options;
}

}  // namespace gfx950
