// Formulas for the time of ATen's operators on a gfx950, in nanoseconds. README.md says how well they meet published
// times.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

namespace gfx950::torch_device {

// Bytes over bandwidth, and a launch.
double memory_nanoseconds(double bytes);

// A product of [m, k] and [k, n], `batch` times, as hipBLASLt does it: the best of a few tile sizes and splits of K.
struct Gemm {
  int64_t batch, m, n, k;
  c10::ScalarType type;
  bool mx = false;  // with e8m0 scales of blocks
};
double gemm_nanoseconds(const Gemm& gemm);

// One product after the other, of rows[i] each, with a read of the offsets by the host first.
double grouped_gemm_nanoseconds(c10::ArrayRef<int64_t> rows, int64_t n, int64_t k, c10::ScalarType type);

// AOTriton's flash attention. `pairs` is queries times keys over all batch elements and heads, before any mask.
struct Attention {
  double pairs;
  int64_t keys, head_size;
  bool causal;
};
double attention_nanoseconds(const Attention& attention);
double attention_backward_nanoseconds(const Attention& attention);

double norm_nanoseconds(int64_t rows, int64_t columns, int64_t item_bytes);
double topk_nanoseconds(int64_t rows, int64_t columns);

double convolution_nanoseconds(double flops, double bytes, c10::ScalarType type);

}  // namespace gfx950::torch_device
