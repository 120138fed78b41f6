// The formulas of cost_models.h for a question from Python, without running anything: a benchmark holds them against
// published times.
#include <torch/library.h>

#include "cost_models.h"

namespace gfx950::torch_device {
namespace {

// `sizes` by family: gemm and mx_gemm M, N, K; grouped_gemm N, K, then the rows of each group; attention batch, heads,
// queries, keys, head size, causal; norm and topk rows, columns.
double aten_nanoseconds(c10::string_view family, at::IntArrayRef sizes, c10::ScalarType type) {
  const auto need = [&](size_t count) {
    TORCH_CHECK_VALUE(sizes.size() >= count, "aten_nanoseconds: ", family, " needs ", count, " sizes, got ", sizes);
  };
  if (family == "gemm" || family == "mx_gemm") {
    need(3);
    return gemm_nanoseconds({1, sizes[0], sizes[1], sizes[2], type, family == "mx_gemm"});
  }
  if (family == "grouped_gemm") {
    need(3);
    return grouped_gemm_nanoseconds(sizes.slice(2), sizes[0], sizes[1], type);
  }
  if (family == "attention") {
    need(6);
    const double pairs = static_cast<double>(sizes[0] * sizes[1]) * static_cast<double>(sizes[2] * sizes[3]);
    return attention_nanoseconds({pairs, sizes[3], sizes[4], sizes[5] != 0});
  }
  if (family == "norm") {
    need(2);
    return norm_nanoseconds(sizes[0], sizes[1], static_cast<int64_t>(c10::elementSize(type)));
  }
  if (family == "topk") {
    need(2);
    return topk_nanoseconds(sizes[0], sizes[1]);
  }
  TORCH_CHECK_VALUE(false, "aten_nanoseconds: no formula for ", family);
}

TORCH_LIBRARY_FRAGMENT(gfx950_emulator, m) {
  m.def("aten_nanoseconds(str family, int[] sizes, ScalarType dtype) -> float", TORCH_FN(aten_nanoseconds));
}

}  // namespace
}  // namespace gfx950::torch_device
