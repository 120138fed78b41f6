// What one lane moves in a memory instruction: how many bytes, and which part of which register they are.
#pragma once

#include <cstdint>

namespace gfx950::exec {

enum class Element : uint8_t {
  dwords,  // Inst::words of them
  u8,
  i8,
  u16,
  i16,
  u8_low,
  i8_low,
  u16_low,  // d16: into the low half, the other half kept
  u8_high,
  i8_high,
  u16_high,  // d16_hi
};

constexpr int bytes_of(Element element) {
  switch (element) {
    case Element::dwords:
      return 4;
    case Element::u8:
    case Element::i8:
    case Element::u8_low:
    case Element::i8_low:
    case Element::u8_high:
    case Element::i8_high:
      return 1;
    default:
      return 2;
  }
}

// The register after a load of `raw` (zero-extended) into `old`.
constexpr uint32_t loaded(Element element, uint32_t raw, uint32_t old) {
  const uint32_t extended8 = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(raw)));
  switch (element) {
    case Element::i8:
      return extended8;
    case Element::i16:
      return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(raw)));
    case Element::u8_low:
    case Element::u16_low:
      return (old & 0xffff0000u) | raw;
    case Element::i8_low:
      return (old & 0xffff0000u) | (extended8 & 0xffffu);
    case Element::u8_high:
    case Element::u16_high:
      return (old & 0xffffu) | raw << 16;
    case Element::i8_high:
      return (old & 0xffffu) | extended8 << 16;
    default:
      return raw;
  }
}

// What a store of this element writes: the low or the high half of the register.
constexpr uint32_t stored(Element element, uint32_t value) {
  return element == Element::u8_high || element == Element::u16_high ? value >> 16 : value;
}

}  // namespace gfx950::exec
