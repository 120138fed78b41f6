// _scaled_mm and _scaled_mm_v2, with and without out=: ROCm's checks on gfx950, and values from float64.
#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ScaledBlasUtils.h>
#include <torch/library.h>

#include "capture.h"
#include "cost_models.h"
#include "dequantise.h"
#include "on_host.h"

namespace gfx950::torch_device {
namespace {

using at::blas::ScalingType;
using at::blas::SwizzleType;
using c10::ScalarType;
using Matrix = const at::Tensor&;
using MaybeTensor = const std::optional<at::Tensor>&;
using MaybeType = std::optional<ScalarType>;

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }
int64_t blocks_of(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

bool is_float(Matrix tensor) { return tensor.scalar_type() == ScalarType::Float; }
bool is_operand(Matrix tensor) { return is_fp8(tensor.scalar_type()) || is_fp4(tensor.scalar_type()); }
std::optional<at::Tensor> if_defined(MaybeTensor tensor) { return tensor && tensor->defined() ? tensor : std::nullopt; }

// ---- what v1 recognises in the scales' dtypes and sizes ----------------------------------------------------------

// Of an operand as [rows, k]; `scale` has the rows first, too.
bool recognises(ScalingType recipe, Matrix operand, Matrix scale) {
  const int64_t rows = operand.size(0), k = operand.size(1) * packed_elements(operand.scalar_type());
  const auto has_block = [&](int64_t dim, int64_t size, int64_t stride) {
    return scale.size(dim) == size && (size <= 1 || scale.stride(dim) == stride);
  };
  const auto padded = [&](int64_t block) { return round_up(rows, 128) * round_up(blocks_of(k, block), 4); };
  const bool float_for_fp8 = is_fp8(operand.scalar_type()) && is_float(scale);
  switch (recipe) {
    case ScalingType::TensorWise:
      return float_for_fp8 && scale.numel() == 1;
    case ScalingType::RowWise:
      return float_for_fp8 && scale.dim() == 2 && scale.size(0) == rows && scale.size(1) == 1 && scale.is_contiguous();
    case ScalingType::BlockWise1x16:
      return is_fp4(operand.scalar_type()) && scale.scalar_type() == ScalarType::Float8_e4m3fn &&
             scale.numel() == padded(16) && scale.is_contiguous();
    case ScalingType::BlockWise1x32:
      return is_operand(operand) && is_e8m0(scale.scalar_type()) && scale.numel() == padded(kMxBlock) &&
             scale.is_contiguous();
    case ScalingType::BlockWise1x128:
      return float_for_fp8 && scale.dim() == 2 && has_block(0, rows, 1) && has_block(1, blocks_of(k, 128), rows);
    case ScalingType::BlockWise128x128:
      return float_for_fp8 && scale.dim() == 2 && has_block(0, blocks_of(rows, 128), blocks_of(k, 128)) &&
             has_block(1, blocks_of(k, 128), 1);
  }
  return false;
}

struct Recipes {
  ScalingType a, b;
};

void describe(std::ostream& text, const char* name, Matrix operand, Matrix scale) {
  text << name << " is " << operand.scalar_type() << " " << operand.sizes() << " with scales " << scale.scalar_type()
       << " " << scale.sizes() << " of strides " << scale.strides();
}

// The simplest recipe that fits comes first: a single scale is tensor-wise whatever the sizes.
Recipes recognise(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b) {
  constexpr Recipes kKnown[] = {{ScalingType::TensorWise, ScalingType::TensorWise},
                                {ScalingType::RowWise, ScalingType::RowWise},
                                {ScalingType::BlockWise128x128, ScalingType::BlockWise1x128},
                                {ScalingType::BlockWise1x128, ScalingType::BlockWise128x128},
                                {ScalingType::BlockWise1x128, ScalingType::BlockWise1x128},
                                {ScalingType::BlockWise1x32, ScalingType::BlockWise1x32},
                                {ScalingType::BlockWise1x16, ScalingType::BlockWise1x16}};
  for (const Recipes& recipes : kKnown) {
    // Scales of blocks of a row are of the transposed operand already; the others come with the operand's own order.
    const bool of_rows = recipes.b == ScalingType::BlockWise1x32 || recipes.b == ScalingType::BlockWise1x16;
    if (!of_rows && scale_b.dim() > 2) continue;
    if (recognises(recipes.a, a, scale_a) && recognises(recipes.b, b.t(), of_rows ? scale_b : scale_b.t())) {
      return recipes;
    }
  }
  std::ostringstream got;
  describe(got, "a", a, scale_a);
  describe(got << "; ", "b", b, scale_b);
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1) * packed_elements(a.scalar_type());
  TORCH_CHECK(false, "Invalid scaling configuration.\n- TensorWise: a and b float8, one float32 scale each.\n",
              "- RowWise: a and b float8, contiguous float32 scales of sizes (", m, ", 1) and (1, ", n, ").\n",
              "- BlockWise 1x32: a and b float8 or float4, contiguous float8_e8m0fnu scales with ",
              round_up(m, 128) * round_up(blocks_of(k, kMxBlock), 4), " and ",
              round_up(n, 128) * round_up(blocks_of(k, kMxBlock), 4), " elements.\nGot: ", got.str());
}

// ---- checks that both versions share -----------------------------------------------------------------------------

// What hipBLASLt has no kernel for. The first version asks for it without saying so.
void refuse_float_blocks(const Recipes& recipes) {
  for (const ScalingType recipe : {recipes.a, recipes.b}) {
    TORCH_CHECK(
        recipe != ScalingType::BlockWise1x16,
        "scaled_gemm with `torch.float8_e4m3fn` scales of 1x16 blocks is only supported for CUDA 12.8 and above");
    TORCH_CHECK(recipe != ScalingType::BlockWise1x128,
                "scaled_gemm with `torch.float` scales of 1x128 blocks is only supported for CUDA 12.9 and above");
    TORCH_CHECK(recipe != ScalingType::BlockWise128x128,
                "scaled_gemm with `torch.float` scales of 128x128 blocks is only supported for CUDA 12.9 and above");
  }
}

void check_layout(Matrix a, Matrix b) {
  const auto rows_in_order = [](Matrix t) {
    return t.stride(1) == 1 && t.stride(0) >= std::max<int64_t>(1, t.size(1));
  };
  const auto columns_in_order = [](Matrix t) {
    return t.stride(0) == 1 && t.stride(1) >= std::max<int64_t>(1, t.size(0));
  };
  // An operand that is in neither order is copied into row order first.
  const bool a_fits = rows_in_order(a) || !columns_in_order(a);
  TORCH_CHECK(a_fits && columns_in_order(b),
              "Only multiplication of row-major and column-major matrices is supported by cuBLASLt");
}

struct BiasCheck {
  bool fits;
  std::string message;
};

BiasCheck check_bias(MaybeTensor bias, ScalarType out) {
  if (!bias) return {true, ""};
  const ScalarType type = bias->scalar_type();
  if (out == ScalarType::Float) return {false, "Bias is not supported when out_dtype is set to Float32"};
  if (type != ScalarType::BFloat16 && type != ScalarType::Half) {
    return {false, c10::str("Bias must be BFloat16 or Half, but got ", type)};
  }
  if (out == ScalarType::BFloat16 && type != ScalarType::BFloat16) {
    return {false, c10::str("Bias must be BFloat16 to compute ", out, " output, but got ", type)};
  }
  if (out == ScalarType::Half && type != ScalarType::Half) {
    return {false, c10::str("Bias must be Float16 to compute ", out, " output, but got ", type)};
  }
  return {true, ""};
}

// ---- values ------------------------------------------------------------------------------------------------------

// The exact sum of products (float64 holds it to 53 bits) times the scales is rounded to float32, where a GEMM has its
// accumulator; bias is added there, and the sum rounded to the type of the result.
at::Tensor product(OnHost& call, Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, ScalingType recipe,
                   MaybeTensor bias, MaybeTensor scale_result, ScalarType out_type) {
  const at::Tensor rows_a = call.in(a), rows_b = call.in(b).t();
  const at::Tensor of_a = call.in(scale_a), of_b = call.in(scale_b);
  const std::optional<at::Tensor> addend = bias ? std::optional(call.in(*bias)) : std::nullopt;
  const std::optional<at::Tensor> scale_out = scale_result ? std::optional(call.in(*scale_result)) : std::nullopt;
  at::Tensor sum;
  if (recipe == ScalingType::BlockWise1x32) {
    sum = at::mm(dequantise_mx(rows_a, of_a), dequantise_mx(rows_b, of_b).t());
  } else {
    sum = at::mm(dequantise(rows_a), dequantise(rows_b).t());
    const bool row_wise = recipe == ScalingType::RowWise;
    sum.mul_(row_wise ? of_a.reshape({-1, 1}).to(at::kDouble) : of_a.reshape({}).to(at::kDouble));
    sum.mul_(row_wise ? of_b.reshape({1, -1}).to(at::kDouble) : of_b.reshape({}).to(at::kDouble));
  }
  at::Tensor accumulator = sum.to(at::kFloat);
  if (addend) accumulator.add_(addend->reshape({1, -1}).to(at::kFloat));
  // A result of 16 or 32 bits is not scaled.
  if (scale_out && c10::isFloat8Type(out_type)) accumulator.mul_(scale_out->reshape({}));
  return accumulator.to(out_type);
}

at::Tensor& write(const char* name, Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, ScalingType recipe,
                  MaybeTensor bias, MaybeTensor scale_result, at::Tensor& out) {
  check_layout(a, b);
  OnHost call(name, a);
  const at::Tensor result = product(call, a, b, scale_a, scale_b, recipe, bias, scale_result, out.scalar_type());
  call.in_place(out).copy_(result);
  call.carry_back();
  const int64_t k = a.size(1) * packed_elements(a.scalar_type());
  call.charge_nanoseconds(
      gemm_nanoseconds({1, a.size(0), b.size(1), k, a.scalar_type(), recipe == ScalingType::BlockWise1x32}));
  return out;
}

// Zero products: the kernels of the library do not take them.
bool is_empty(Matrix a, Matrix b, at::Tensor& out) {
  if (a.size(0) != 0 && a.size(1) != 0 && b.size(1) != 0) return false;
  if (a.size(1) == 0) out.zero_();
  return true;
}

// ---- version 1 ---------------------------------------------------------------------------------------------------

void check_multiples_of_16(Matrix a, Matrix b) {
  TORCH_CHECK(a.size(1) % 16 == 0, "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (",
              a.size(0), "x", a.size(1), ").");
  TORCH_CHECK(b.size(0) % 16 == 0 && b.size(1) % 16 == 0, "mat2 shape (", b.size(0), "x", b.size(1),
              ") must be divisible by 16");
}

at::Tensor& scaled_mm_out(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, MaybeTensor bias_, MaybeTensor result_,
                          MaybeType out_type, bool fast_accumulation, at::Tensor& out) {
  const auto bias = if_defined(bias_), scale_result = if_defined(result_);
  TORCH_CHECK(a.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
              b.size(0), "x", b.size(1), ")");
  const Recipes recipes = recognise(a, b, scale_a, scale_b);
  TORCH_CHECK(!scale_result || (scale_result->numel() == 1 && is_float(*scale_result)),
              "scale_result must be a float scalar");
  TORCH_CHECK(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ",
              bias ? bias->numel() : 0);
  check_multiples_of_16(a, b);
  TORCH_CHECK(!out_type || *out_type == out.scalar_type(), "out_dtype must match output matrix type");
  TORCH_CHECK(!fast_accumulation || !(is_fp4(a.scalar_type()) || is_fp4(b.scalar_type())),
              "`use_fast_accum` is not supported when `mat1` or `mat2` tensors have the `Float4_e2m1fn_x2` dtype.");
  const BiasCheck bias_check = check_bias(bias, out.scalar_type());
  TORCH_CHECK(bias_check.fits, bias_check.message);
  at::native::resize_output(out, {a.size(0), b.size(1)});
  if (is_empty(a, b, out)) return out;
  refuse_float_blocks(recipes);
  if (recipes.a == ScalingType::RowWise) {
    TORCH_CHECK_VALUE(b.scalar_type() == ScalarType::Float8_e4m3fn,
                      "Expected b.dtype() == at::kFloat8_e4m3fn, got: ", b.dtype());
    TORCH_CHECK_VALUE(out.scalar_type() == ScalarType::BFloat16,
                      "hipblaslt rowwise _scaled_mm only supports BFloat16 output but got ", out.scalar_type());
  }
  if (recipes.a == ScalingType::BlockWise1x32) {
    TORCH_CHECK_VALUE(
        a.size(0) % 16 == 0 && a.size(1) * packed_elements(a.scalar_type()) % 128 == 0 && b.size(1) % 16 == 0,
        "M, N must be multiples of 16 and K must be multiple of 128 for block-wise scaling");
    TORCH_CHECK_VALUE(out.scalar_type() == ScalarType::BFloat16 || out.scalar_type() == ScalarType::Half,
                      "Block-wise scaling only supports BFloat16 or Half output types");
  }
  return write("_scaled_mm", a, b, scale_a, scale_b, recipes.a, bias, scale_result, out);
}

at::Tensor scaled_mm(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, MaybeTensor bias, MaybeTensor scale_result,
                     MaybeType out_type, bool fast_accumulation) {
  at::Tensor out = at::empty({0}, a.options().dtype(out_type.value_or(a.scalar_type())));
  return scaled_mm_out(a, b, scale_a, scale_b, bias, scale_result, out_type, fast_accumulation, out);
}

// ---- version 2 ---------------------------------------------------------------------------------------------------

// The recipe that the caller names, by the predicates that ATen has for all devices.
ScalingType named_recipe(Matrix a, std::vector<ScalingType> recipe_a, at::ArrayRef<at::Tensor> scale_a, Matrix b,
                         std::vector<ScalingType> recipe_b, at::ArrayRef<at::Tensor> scale_b) {
  namespace scaled = at::native::scaled;
  const auto fits = [&](auto predicate) {
    return predicate(a.scalar_type(), recipe_a, scale_a, b.scalar_type(), recipe_b, scale_b);
  };
  if (fits(scaled::check_tensorwise_recipe)) return ScalingType::TensorWise;
  if (fits(scaled::check_rowwise_recipe)) return ScalingType::RowWise;
  constexpr Recipes kFloatBlocks[] = {{ScalingType::BlockWise1x128, ScalingType::BlockWise128x128},
                                      {ScalingType::BlockWise128x128, ScalingType::BlockWise1x128},
                                      {ScalingType::BlockWise1x128, ScalingType::BlockWise1x128}};
  for (const Recipes& pair : kFloatBlocks) {
    TORCH_CHECK_NOT_IMPLEMENTED(!scaled::check_deepseek_recipe(pair.a, pair.b, a.scalar_type(), recipe_a, scale_a,
                                                               b.scalar_type(), recipe_b, scale_b),
                                "1x128 and 128x128 scaling not available with ROCm");
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!fits(scaled::check_nvfp4_recipe) && !fits(scaled::check_nvfp4_recipe_single_scale),
                              "NVFP4 scaling not supported on ROCM");
  if (fits(scaled::check_mxfp8_recipe) || fits(scaled::check_mxfp4_recipe)) return ScalingType::BlockWise1x32;
  std::ostringstream got;
  describe(got, "mat_a", a, scale_a[0]);
  describe(got << "; ", "mat_b", b, scale_b[0]);
  TORCH_CHECK_VALUE(false, "Invalid scaling configuration.\n- TensorWise: float8, one float32 scale each.\n",
                    "- RowWise: float8, float32 scales of sizes (", a.size(0), ", 1) and (1, ", b.size(1), ").\n",
                    "- BlockWise 1x32: float8 or float4, float8_e8m0fnu scales.\nGot: ", got.str());
}

void check_row_wise(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, Matrix out) {
  TORCH_CHECK_VALUE(scale_a.dim() == 2 && scale_a.size(0) == a.size(0) && scale_a.size(1) == 1,
                    "scale_a must have shape [", a.size(0), ", 1], got [", scale_a.sizes(), "]");
  TORCH_CHECK_VALUE(scale_b.dim() == 2 && scale_b.numel() == b.size(1) && is_float(scale_b), "scale_b must have ",
                    b.size(1), " Float elements, got ", scale_b.numel());
  TORCH_CHECK_VALUE(scale_b.stride(1) == 1, "expected scale_b.stride(1) to be 1, but got ", scale_b.stride(1));
  TORCH_CHECK_VALUE(b.scalar_type() == ScalarType::Float8_e4m3fn,
                    "expected mat_b.dtype() to be at::kFloat8_e4m3fn, but got ", b.dtype());
  TORCH_CHECK_VALUE(out.scalar_type() == ScalarType::BFloat16,
                    "hipblaslt rowwise _scaled_mm only supports BFloat16 output but got ", out.scalar_type());
}

void check_mx(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, at::IntArrayRef swizzle_a, at::IntArrayRef swizzle_b,
              Matrix out) {
  const auto none = static_cast<int64_t>(SwizzleType::NO_SWIZZLE);
  TORCH_CHECK_VALUE(swizzle_a.size() == 1 && swizzle_b.size() == 1,
                    "For ROCm MX gemm, swizzle_a and swizzle_b must each have 1 value, got ", swizzle_a.size(), " and ",
                    swizzle_b.size());
  TORCH_CHECK_VALUE(swizzle_a[0] == none && swizzle_b[0] == none,
                    "For ROCM MX gemm, swizzle_a and swizzle_b must both be NO_SWIZZLE");
  // In stored elements, as the library counts them.
  const int64_t packing = packed_elements(a.scalar_type());
  const int64_t of_a = blocks_of(packing * a.size(0), kMxBlock) * a.size(1);
  const int64_t of_b = blocks_of(packing * b.size(1), kMxBlock) * b.size(0);
  TORCH_CHECK_VALUE(scale_a.numel() == of_a, "For Blockwise scaling scale_a should have ", of_a,
                    " elements, got: ", scale_a.numel());
  TORCH_CHECK_VALUE(scale_b.numel() == of_b, "For Blockwise scaling scale_b should have ", of_b,
                    " elements, got: ", scale_b.numel());
  TORCH_CHECK_VALUE(scale_a.is_contiguous() && scale_b.is_contiguous(),
                    "For Blockwise scaling both scales should be contiguous");
  TORCH_CHECK_VALUE(a.size(0) % 32 == 0 && a.size(1) % 32 == 0 && b.size(0) % 32 == 0 && b.size(1) % 32 == 0,
                    "Matrix dimensions must be multiples of 32 for block-wise scaling");
  TORCH_CHECK_VALUE(out.scalar_type() == ScalarType::BFloat16 || out.scalar_type() == ScalarType::Half,
                    "Block-wise scaling only supports BFloat16 or Half output types");
}

void check_contraction(Matrix a, Matrix b, at::IntArrayRef dims) {
  if (dims.empty()) {
    TORCH_CHECK_VALUE(a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x",
                      a.size(1), " and ", b.size(0), "x", b.size(1), ")");
    return;
  }
  TORCH_CHECK_VALUE(dims.size() == 2, "contraction_dim must have two values, got ", dims.size());
  TORCH_CHECK_VALUE(a.size(dims[0]) == b.size(dims[1]), "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x",
                    a.size(1), " and ", b.size(0), "x", b.size(1), ") with contraction dims mat_a: ", dims[0],
                    ", mat_b: ", dims[1]);
  TORCH_CHECK_VALUE(dims[0] == -1 && dims[1] == -2, "Currently contraction dims must be (-1, -2) only");
}

at::Tensor& scaled_mm_v2_out(Matrix a, Matrix b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                             at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b,
                             at::IntArrayRef swizzle_b, MaybeTensor bias_, MaybeType out_type,
                             at::IntArrayRef contraction, bool fast_accumulation, at::Tensor& out) {
  const auto bias = if_defined(bias_);
  TORCH_CHECK_VALUE(a.dim() == 2, "mat_a must be a matrix");
  TORCH_CHECK_VALUE(b.dim() == 2, "mat_b must be a matrix");
  check_contraction(a, b, contraction);
  TORCH_CHECK_VALUE(!scale_a.empty() && !scale_b.empty(), "scale_a and scale_b must hold at least one tensor each");
  TORCH_CHECK_VALUE(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ",
                    bias ? bias->numel() : 0);
  TORCH_CHECK_VALUE(!out_type || *out_type == out.scalar_type(), "out_dtype must match output matrix type");
  at::native::resize_output(out, {a.size(0), b.size(1)});
  if (is_empty(a, b, out)) return out;
  const int64_t packing = packed_elements(a.scalar_type());
  TORCH_CHECK_VALUE(packing * a.size(1) % 16 == 0,
                    "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (", a.size(0), "x",
                    packing * a.size(1), ").");
  TORCH_CHECK_VALUE(packing * b.size(0) % 16 == 0 && b.size(1) % 16 == 0, "mat2 shape (", b.size(0), "x", b.size(1),
                    ") must be divisible by 16");
  TORCH_CHECK_VALUE(is_operand(a), "Expected mat_a to be Float8 or Float4_x2 matrix got ", a.scalar_type());
  TORCH_CHECK_VALUE(is_operand(b), "Expected mat_b to be Float8 or Float4_x2 matrix got ", b.scalar_type());
  TORCH_CHECK_VALUE(!fast_accumulation || !(is_fp4(a.scalar_type()) || is_fp4(b.scalar_type())),
                    "`use_fast_accum` is not supported when `mat_a` or `mat_b` tensors have the `Float4_e2m1fn_x2` "
                    "dtype.");
  const BiasCheck bias_check = check_bias(bias, out.scalar_type());
  TORCH_CHECK_VALUE(bias_check.fits, bias_check.message);
  const ScalingType recipe = named_recipe(a, at::native::scaled::convert_int_to_enum<ScalingType>(recipe_a), scale_a, b,
                                          at::native::scaled::convert_int_to_enum<ScalingType>(recipe_b), scale_b);
  if (recipe == ScalingType::RowWise) check_row_wise(a, b, scale_a[0], scale_b[0], out);
  if (recipe == ScalingType::BlockWise1x32) {
    check_mx(a, b, scale_a[0], scale_b[0], swizzle_a, swizzle_b, out);
  }
  return write("_scaled_mm_v2", a, b, scale_a[0], scale_b[0], recipe, bias, std::nullopt, out);
}

at::Tensor scaled_mm_v2(Matrix a, Matrix b, at::TensorList scale_a, at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a,
                        at::TensorList scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, MaybeTensor bias,
                        MaybeType out_type, at::IntArrayRef contraction, bool fast_accumulation) {
  at::Tensor out = at::empty({0}, a.options().dtype(out_type.value_or(a.scalar_type())));
  return scaled_mm_v2_out(a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_type, contraction,
                          fast_accumulation, out);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_scaled_mm", recorded<&scaled_mm>());
  m.impl("_scaled_mm.out", recorded<&scaled_mm_out>());
  m.impl("_scaled_mm_v2", recorded<&scaled_mm_v2>());
  m.impl("_scaled_mm_v2.out", recorded<&scaled_mm_v2_out>());
}

}  // namespace
}  // namespace gfx950::torch_device
