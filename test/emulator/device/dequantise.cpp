#include "dequantise.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <limits>

namespace gfx950::torch_device {
namespace {

using c10::ScalarType;
using Table = std::array<double, 256>;

template <typename Fp8>
Table fp8_table() {
  Table table{};
  for (int bits = 0; bits < 256; ++bits) {
    table[bits] = static_cast<float>(Fp8(static_cast<uint8_t>(bits), Fp8::from_bits()));
  }
  return table;
}

Table e8m0_table() {
  Table table{};
  for (int bits = 0; bits < 255; ++bits) table[bits] = std::ldexp(1.0, bits - 127);
  table[255] = std::numeric_limits<double>::quiet_NaN();
  return table;
}

const Table& table_of(ScalarType type) {
  static const auto* e4m3 = new Table(fp8_table<c10::Float8_e4m3fn>());
  static const auto* e5m2 = new Table(fp8_table<c10::Float8_e5m2>());
  TORCH_INTERNAL_ASSERT(is_fp8(type), "no table for ", type);
  return type == ScalarType::Float8_e4m3fn ? *e4m3 : *e5m2;
}

constexpr std::array<double, 16> kFp4 = {0.0,  0.5,  1.0,  1.5,  2.0,  3.0,  4.0,  6.0,
                                         -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0};

void expand_row(const uint8_t* stored, int64_t stride, int64_t count, ScalarType type, double* values) {
  if (is_fp4(type)) {
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t byte = stored[i * stride];
      values[2 * i] = kFp4[byte & 15];
      values[2 * i + 1] = kFp4[byte >> 4];
    }
    return;
  }
  const Table& table = table_of(type);
  for (int64_t i = 0; i < count; ++i) values[i] = table[stored[i * stride]];
}

}  // namespace

bool is_fp8(ScalarType type) { return type == ScalarType::Float8_e4m3fn || type == ScalarType::Float8_e5m2; }
bool is_fp4(ScalarType type) { return type == ScalarType::Float4_e2m1fn_x2; }
bool is_e8m0(ScalarType type) { return type == ScalarType::Float8_e8m0fnu; }
int64_t packed_elements(ScalarType type) { return is_fp4(type) ? 2 : 1; }

at::Tensor dequantise(const at::Tensor& stored) {
  const int64_t rows = stored.size(0), count = stored.size(1);
  const int64_t k = count * packed_elements(stored.scalar_type());
  at::Tensor values = at::empty({rows, k}, at::kDouble);
  const auto* bytes = static_cast<const uint8_t*>(stored.const_data_ptr());
  auto* row = values.mutable_data_ptr<double>();
  for (int64_t r = 0; r < rows; ++r, row += k) {
    expand_row(bytes + r * stored.stride(0), stored.stride(1), count, stored.scalar_type(), row);
  }
  return values;
}

at::Tensor dequantise_mx(const at::Tensor& stored, const at::Tensor& scales) {
  static const auto* worth = new Table(e8m0_table());
  at::Tensor values = dequantise(stored);
  const int64_t rows = values.size(0), k = values.size(1), blocks = k / kMxBlock;
  TORCH_INTERNAL_ASSERT(scales.is_contiguous() && scales.numel() >= rows * blocks && k % kMxBlock == 0);
  const auto* scale = static_cast<const uint8_t*>(scales.const_data_ptr());
  auto* value = values.mutable_data_ptr<double>();
  for (int64_t block = 0; block < rows * blocks; ++block, ++scale) {
    for (int64_t i = 0; i < kMxBlock; ++i) *value++ *= (*worth)[*scale];
  }
  return values;
}

}  // namespace gfx950::torch_device
