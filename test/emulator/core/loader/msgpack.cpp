#include "msgpack.h"

#include "gfx950/gfx950.h"

namespace gfx950::loader {
namespace {

constexpr int kMaxDepth = 32;  // AMDGPU metadata nests four deep; this stops a crafted note from exhausting the stack

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : p_(data), end_(data + size) {}

  MsgValue value(int depth) {
    if (depth > kMaxDepth) fail("nested deeper than 32");
    const uint8_t tag = static_cast<uint8_t>(number(1));
    if (tag <= 0x7f) return integer(tag);
    if (tag >= 0xe0) return integer(static_cast<int8_t>(tag));
    if (tag <= 0x8f) return map(tag & 0x0f, depth);
    if (tag <= 0x9f) return array(tag & 0x0f, depth);
    if (tag <= 0xbf) return text(tag & 0x1f);
    switch (tag) {
      case 0xc0:
        return {};
      case 0xc2:
        return boolean(false);
      case 0xc3:
        return boolean(true);
      case 0xc4:
        return skip(number(1));
      case 0xc5:
        return skip(number(2));
      case 0xc6:
        return skip(number(4));
      case 0xca:
        return skip(4);
      case 0xcb:
        return skip(8);
      case 0xcc:
        return integer(static_cast<int64_t>(number(1)));
      case 0xcd:
        return integer(static_cast<int64_t>(number(2)));
      case 0xce:
        return integer(static_cast<int64_t>(number(4)));
      case 0xcf:
        return integer(static_cast<int64_t>(number(8)));
      case 0xd0:
        return integer(static_cast<int8_t>(number(1)));
      case 0xd1:
        return integer(static_cast<int16_t>(number(2)));
      case 0xd2:
        return integer(static_cast<int32_t>(number(4)));
      case 0xd3:
        return integer(static_cast<int64_t>(number(8)));
      case 0xd9:
        return text(number(1));
      case 0xda:
        return text(number(2));
      case 0xdb:
        return text(number(4));
      case 0xdc:
        return array(number(2), depth);
      case 0xdd:
        return array(number(4), depth);
      case 0xde:
        return map(number(2), depth);
      case 0xdf:
        return map(number(4), depth);
      default:
        fail("unknown type byte " + std::to_string(tag));
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(ErrorKind::invalid_image, "kernel metadata (MessagePack): " + what);
  }

  void need(uint64_t count) const {
    if (count > static_cast<uint64_t>(end_ - p_)) {
      fail("needs " + std::to_string(count) + " bytes, " + std::to_string(end_ - p_) + " left");
    }
  }

  uint64_t number(int bytes) {
    need(static_cast<uint64_t>(bytes));
    uint64_t result = 0;
    for (int i = 0; i < bytes; ++i) result = result << 8 | *p_++;
    return result;
  }

  static MsgValue integer(int64_t number) {
    MsgValue v;
    v.kind = MsgValue::Kind::integer;
    v.integer = number;
    return v;
  }

  static MsgValue boolean(bool flag) {
    MsgValue v;
    v.kind = MsgValue::Kind::boolean;
    v.integer = flag;
    return v;
  }

  MsgValue skip(uint64_t bytes) {
    need(bytes);
    p_ += bytes;
    MsgValue v;
    v.kind = MsgValue::Kind::other;
    return v;
  }

  MsgValue text(uint64_t bytes) {
    need(bytes);
    MsgValue v;
    v.kind = MsgValue::Kind::text;
    v.text.assign(reinterpret_cast<const char*>(p_), bytes);
    p_ += bytes;
    return v;
  }

  MsgValue array(uint64_t count, int depth) {
    need(count);  // an element takes at least a byte
    MsgValue v;
    v.kind = MsgValue::Kind::array;
    for (uint64_t i = 0; i < count; ++i) v.array.push_back(value(depth + 1));
    return v;
  }

  MsgValue map(uint64_t count, int depth) {
    need(count);
    MsgValue v;
    v.kind = MsgValue::Kind::map;
    for (uint64_t i = 0; i < count; ++i) {
      MsgValue key = value(depth + 1);
      MsgValue element = value(depth + 1);
      if (key.kind == MsgValue::Kind::text) v.map.emplace_back(std::move(key.text), std::move(element));
    }
    return v;
  }

  const uint8_t* p_;
  const uint8_t* end_;
};

}  // namespace

const MsgValue* MsgValue::get(std::string_view key) const {
  for (const auto& [name, element] : map) {
    if (name == key) return &element;
  }
  return nullptr;
}

MsgValue parse_msgpack(const uint8_t* data, size_t size) { return Reader(data, size).value(0); }

}  // namespace gfx950::loader
