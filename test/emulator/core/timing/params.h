// The numbers of the timing model: params.inc lists them with their sources.
#pragma once

#include <string>

namespace gfx950::timing {

struct MachineParams {
#define X(name, value, source) double name = value;
#include "params.inc"
#undef X

  // `text`: "name=value" separated by commas or line breaks, or the path of a file that holds such lines (# comments).
  // Throws Error(invalid_launch) that names what is wrong.
  static MachineParams parse(const std::string& text);
  // GFX950_TIMING_PARAMS, on top of the defaults. Read at every call, like RunOptions.
  static MachineParams from_environment();

  void set(const std::string& name, double value);
  std::string json() const;  // {name: {"value", "default", "source"}}
};

}  // namespace gfx950::timing
