// A reader for the MessagePack document in an AMDGPU metadata note. Every length is checked against the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gfx950::loader {

struct MsgValue {
  enum class Kind { nil, boolean, integer, text, array, map, other };
  Kind kind = Kind::nil;
  int64_t integer = 0;  // also the boolean
  std::string text;
  std::vector<MsgValue> array;
  std::vector<std::pair<std::string, MsgValue>> map;  // keys that are not text are dropped

  const MsgValue* get(std::string_view key) const;  // nullptr unless this is a map that holds the key
};

// Throws Error(invalid_image).
MsgValue parse_msgpack(const uint8_t* data, size_t size);

}  // namespace gfx950::loader
