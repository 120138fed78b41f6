#include <cerrno>
#include <cstdlib>
#include <string>

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

}  // namespace

RunOptions RunOptions::from_environment() {
  RunOptions options;
  std::string value;
  if (read("GFX950_SCHEDULE", value)) {
    if (value == "run_to_barrier") {
      options.schedule = Schedule::run_to_barrier;
    } else if (value == "round_robin") {
      options.schedule = Schedule::round_robin;
    } else {
      bad("GFX950_SCHEDULE", value, "run_to_barrier or round_robin");
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
    if (*end != 0 || !(seconds > 0)) bad("GFX950_TIMEOUT", value, "seconds above 0");
    options.timeout_seconds = seconds;
  }
  return options;
}

}  // namespace gfx950
