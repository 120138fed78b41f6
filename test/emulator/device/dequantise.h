// What the elements of fp8 and packed fp4 matrices and their scales are worth, as float64.
#pragma once

#include <ATen/core/Tensor.h>

namespace gfx950::torch_device {

// Elements that share one e8m0 scale in the OCP microscaling formats.
constexpr int64_t kMxBlock = 32;

bool is_fp8(c10::ScalarType type);  // e4m3fn and e5m2, which gfx950 multiplies
bool is_fp4(c10::ScalarType type);  // two e2m1 to a byte, the first in the low bits
bool is_e8m0(c10::ScalarType type);

// Elements in one stored element: 2 for packed fp4.
int64_t packed_elements(c10::ScalarType type);

// [rows, k] of float64 for a CPU matrix of any strides that is stored as [rows, k] (packed fp4: [rows, k / 2]). Exact.
at::Tensor dequantise(const at::Tensor& stored);

// The same times its scales: `scales` holds one e8m0 for every kMxBlock elements of a row, row after row, in a
// contiguous CPU tensor; what follows the last row is padding. 0x00 is 2^-127; 0xFF makes its own elements NaN.
at::Tensor dequantise_mx(const at::Tensor& stored, const at::Tensor& scales);

}  // namespace gfx950::torch_device
