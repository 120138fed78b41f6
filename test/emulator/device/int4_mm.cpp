// Products with weights of 4 bits, which ATen packs for CUDA only: _convert_weight_to_int4pack and _weight_int4pack_mm.
//
// A packed weight has the shape that the CUDA backend gives it, and its own order inside: nobody but these two
// operators looks there. Here element (n, k) is nibble k % 8 of dword n * K / 8 + k / 8.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "capture.h"
#include "cost_models.h"
#include "on_host.h"

namespace gfx950::torch_device {
namespace {

using at::Tensor;

constexpr int64_t kRows = 8, kDepth = 16, kLanes = 32;  // of a tile, and of what holds it

Tensor convert_weight_to_int4pack(const Tensor& weight, int64_t inner_k_tiles) {
  TORCH_CHECK(weight.dim() == 2 && weight.scalar_type() == at::kByte,
              "_convert_weight_to_int4pack: expected a weight [N, K / 2] of uint8, got ", weight.sizes(), " of ",
              weight.scalar_type());
  TORCH_CHECK(inner_k_tiles == 2 || inner_k_tiles == 4 || inner_k_tiles == 8,
              "_convert_weight_to_int4pack: innerKTiles must be 2, 4 or 8, got ", inner_k_tiles);
  const int64_t n = weight.size(0), k = 2 * weight.size(1);
  TORCH_CHECK(n % kRows == 0 && k % (inner_k_tiles * kDepth) == 0,
              "_convert_weight_to_int4pack: N must be a multiple of ", kRows, " and K of ", inner_k_tiles * kDepth,
              ", got N = ", n, ", K = ", k);
  OnHost call("_convert_weight_to_int4pack", weight);
  const Tensor pairs = call.in(weight);  // the first of a pair is the high half
  const Tensor nibbles = at::stack({pairs.bitwise_right_shift(4), pairs.bitwise_and(15)}, 2).reshape({n, k / 8, 8});
  Tensor packed = at::zeros({n, k / 8}, at::kInt);
  for (int64_t place = 0; place < 8; ++place) {
    packed.bitwise_or_(nibbles.select(2, place).to(at::kInt).bitwise_left_shift(4 * place));
  }
  const Tensor result = call.out(packed.reshape({n / kRows, k / (inner_k_tiles * kDepth), kLanes, inner_k_tiles / 2}));
  call.charge(CostClass::memory);
  return result;
}

Tensor weight_int4pack_mm(const Tensor& x, const Tensor& packed, int64_t group, const Tensor& scale_and_zero) {
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::kBFloat16,
              "_weight_int4pack_mm: expected x [M, K] of bfloat16, got ", x.sizes(), " of ", x.scalar_type());
  TORCH_CHECK(packed.dim() == 4 && packed.scalar_type() == at::kInt && packed.size(2) == kLanes,
              "_weight_int4pack_mm: expected a weight of _convert_weight_to_int4pack, got ", packed.sizes(), " of ",
              packed.scalar_type());
  TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256,
              "_weight_int4pack_mm: the group size must be 32, 64, 128 or 256, got ", group);
  const int64_t n = packed.size(0) * kRows, k = packed.size(1) * packed.size(3) * 2 * kDepth;
  TORCH_CHECK(x.size(1) == k, "_weight_int4pack_mm: x has K = ", x.size(1), ", the weight ", k);
  TORCH_CHECK(k % group == 0 && scale_and_zero.scalar_type() == at::kBFloat16 &&
                  scale_and_zero.sizes() == at::IntArrayRef({k / group, n, 2}),
              "_weight_int4pack_mm: expected scales and zeros [K / group, N, 2] = [", k / group, ", ", n,
              ", 2] of bfloat16, got ", scale_and_zero.sizes(), " of ", scale_and_zero.scalar_type());
  OnHost call("_weight_int4pack_mm", x);
  const Tensor words = call.in(packed).reshape({n, k / 8, 1});
  const Tensor codes =
      words.bitwise_right_shift(at::arange(0, 32, 4, at::kInt)).bitwise_and(15).reshape({n, k / group, group});
  const Tensor parts = call.in(scale_and_zero).to(at::kFloat).permute({1, 0, 2}).unsqueeze(2);  // [N, groups, 1, 2]
  const Tensor weight =
      codes.sub(8).to(at::kFloat).mul(parts.select(3, 0)).add(parts.select(3, 1)).to(at::kBFloat16).reshape({n, k});
  const Tensor y = at::mm(call.in(x).to(at::kFloat), weight.to(at::kFloat).t()).to(at::kBFloat16);
  const Tensor result = call.out(y);
  call.charge_nanoseconds(gemm_nanoseconds({1, x.size(0), n, k, at::kBFloat16}));
  return result;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_convert_weight_to_int4pack", recorded<&convert_weight_to_int4pack>());
  m.impl("_weight_int4pack_mm", recorded<&weight_int4pack_mm>());
}

}  // namespace
}  // namespace gfx950::torch_device
