// Grouped products: _grouped_mm, _scaled_grouped_mm and _scaled_grouped_mm_v2 as ROCm has them, and the MX form that
// ROCm does not have, as a reference under a name of its own.
#include <ATen/ATen.h>
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

std::optional<at::Tensor> if_defined(MaybeTensor tensor) { return tensor && tensor->defined() ? tensor : std::nullopt; }

// ---- groups ------------------------------------------------------------------------------------------------------

// A product of one group: which part of each operand, and of the result.
struct Group {
  int64_t index, begin, end;  // begin and end are of the dimension that the offsets divide
};

// Of a [M, K] or [G, M, K], b [K, N] or [G, K, N]: two matrices share K between groups, a matrix and a batch share M or
// N.
class Groups {
 public:
  Groups(Matrix a, Matrix b, MaybeTensor offsets) : a_2d_(a.dim() == 2), b_2d_(b.dim() == 2) {
    count_ = offsets ? offsets->size(0) : a.size(0);
    if (a_2d_ && b_2d_) {
      divided_ = a.size(1), size_ = {count_, a.size(0), b.size(1)};
    } else if (a_2d_) {
      TORCH_CHECK(count_ == b.size(0), "matrix batch sizes have to match");
      divided_ = a.size(0), size_ = {a.size(0), b.size(2)};
    } else if (b_2d_) {
      TORCH_CHECK(count_ == a.size(0), "matrix batch sizes have to match");
      divided_ = b.size(1), size_ = {a.size(1), b.size(1)};
    } else {
      TORCH_CHECK(a.size(0) == b.size(0), "batched dimension has to match");
      size_ = {a.size(0), a.size(1), b.size(2)};
    }
  }

  // Rows, columns or groups that nobody writes stay as they are, except where K is divided: an empty group is a sum of
  // nothing.
  at::Tensor make_result(Matrix a, ScalarType type) const {
    const auto options = a.options().dtype(type);
    return a_2d_ && b_2d_ ? at::zeros(size_, options) : at::empty(size_, options);
  }

  // `offsets` is a CPU tensor: where each group ends.
  std::vector<Group> list(const std::optional<at::Tensor>& offsets) const {
    std::vector<Group> groups;
    int64_t begin = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t end = offsets ? (*offsets)[i].item<int>() : 0;
      TORCH_CHECK(!offsets || (end >= begin && end <= divided_), "offs must not decrease and not exceed ", divided_,
                  ", but offs[", i, "] is ", end, " after ", begin);
      groups.push_back({i, begin, end});
      begin = end;
    }
    return groups;
  }

  at::Tensor of_a(Matrix a, const Group& group) const {
    if (!a_2d_) return a[group.index];
    return a.slice(b_2d_ ? 1 : 0, group.begin, group.end);
  }
  at::Tensor of_b(Matrix b, const Group& group) const {
    if (!b_2d_) return b[group.index];
    return b.slice(a_2d_ ? 0 : 1, group.begin, group.end);
  }
  at::Tensor of_result(Matrix result, const Group& group) const {
    if (a_2d_ == b_2d_) return result[group.index];
    return result.slice(a_2d_ ? 0 : 1, group.begin, group.end);
  }
  // Row scales of one float each: of every group where K is divided, of the divided dimension else.
  at::Tensor scales_of_a(Matrix scale, const Group& group, int64_t rows) const {
    if (!a_2d_) return scale[group.index];
    if (b_2d_) return scale.slice(0, group.index * rows, (group.index + 1) * rows);
    return scale.slice(0, group.begin, group.end);
  }
  at::Tensor scales_of_b(Matrix scale, const Group& group, int64_t columns) const {
    if (!b_2d_) return scale[group.index];
    if (a_2d_) return scale.slice(0, group.index * columns, (group.index + 1) * columns);
    return scale.slice(0, group.begin, group.end);
  }
  // MX scales, which lie as the operand's rows do: [rows, K / 32], of a batch [G, rows, K / 32].
  at::Tensor blocks_of_a(Matrix scale, const Group& group) const {
    if (!a_2d_) return scale[group.index];
    return b_2d_ ? scale.slice(1, group.begin / kMxBlock, group.end / kMxBlock)
                 : scale.slice(0, group.begin, group.end);
  }
  at::Tensor blocks_of_b(Matrix scale, const Group& group) const {
    if (!b_2d_) return scale[group.index];
    return a_2d_ ? scale.slice(1, group.begin / kMxBlock, group.end / kMxBlock)
                 : scale.slice(0, group.begin, group.end);
  }
  // Of the host's loop over products that ROCm has; its rows, whichever dimension the offsets divide.
  double nanoseconds(Matrix a, Matrix b, const std::optional<at::Tensor>& offsets) const {
    std::vector<int64_t> rows;
    for (const Group& group : list(offsets)) {
      const bool divided = a_2d_ && !b_2d_;
      rows.push_back(divided ? group.end - group.begin : a.size(-2));
    }
    const int64_t packing = packed_elements(a.scalar_type());
    int64_t n = b.size(-1), k = a.size(-1) * packing;
    const auto count = std::max<int64_t>(1, count_);
    if (a_2d_ && b_2d_) k = (k + count - 1) / count;
    if (!a_2d_ && b_2d_) n = (n + count - 1) / count;
    return grouped_gemm_nanoseconds(rows, n, k, a.scalar_type());
  }
  bool divides_k() const { return a_2d_ && b_2d_; }

 private:
  bool a_2d_, b_2d_;
  int64_t count_ = 0, divided_ = 0;
  std::vector<int64_t> size_;
};

// ---- checks ------------------------------------------------------------------------------------------------------

// Whether the last but one dimension is the dense one. Rows, or columns, begin at multiples of 16 bytes.
bool is_transposed(Matrix matrix) {
  TORCH_CHECK(reinterpret_cast<uintptr_t>(matrix.const_data_ptr()) % 16 == 0,
              "expected data_ptr to be aligned to 16 bytes");
  const int64_t per_16_bytes = std::max<int64_t>(1, 16 / static_cast<int64_t>(matrix.element_size()));
  const int64_t inner = matrix.stride(-1), outer = matrix.stride(-2);
  const auto aligned = [&](int64_t stride) {  // of no elements, the strides say nothing
    TORCH_CHECK(matrix.numel() == 0 || stride % per_16_bytes == 0, "strides should be multiple of 16 bytes");
  };
  if (outer == 1 && inner >= std::max<int64_t>(1, matrix.size(-2))) return aligned(inner), true;
  if (inner == 1 && outer >= std::max<int64_t>(1, matrix.size(-1))) return aligned(outer), false;
  TORCH_CHECK(false, "Invalid strides/sizes, got ", matrix.strides(), " for strides and ", matrix.sizes(),
              " for sizes");
}

void check_dims(Matrix a, Matrix b) {
  TORCH_CHECK_VALUE(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
  TORCH_CHECK_VALUE(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
}

void check_offsets(Matrix a, Matrix b, MaybeTensor offsets) {
  const bool any_2d = a.dim() == 2 || b.dim() == 2;
  TORCH_CHECK_VALUE(offsets.has_value() == any_2d, "Have to provide offsets if there is a 2d matrix");
  if (!offsets) return;
  TORCH_CHECK_VALUE(offsets->dim() == 1, "offs has to be 1D");
  TORCH_CHECK_VALUE(offsets->scalar_type() == ScalarType::Int, "Offsets have to be int32");
}

// ---- bfloat16, float16, float32 ----------------------------------------------------------------------------------

at::Tensor grouped_mm(Matrix a, Matrix b, MaybeTensor offsets_, MaybeTensor bias, MaybeType out_type) {
  const auto offsets = if_defined(offsets_);
  for (const auto& [matrix, name] : {std::pair{a, "mat_a"}, std::pair{b, "mat_b"}}) {
    const ScalarType type = matrix.scalar_type();
    TORCH_CHECK(type == ScalarType::BFloat16 || type == ScalarType::Float || type == ScalarType::Half, "Expected ",
                name, " to be Float32, BFloat16 or Float16 matrix, got ", type);
  }
  TORCH_CHECK(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
  TORCH_CHECK(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
  if (a.dim() == 3 || b.dim() == 3) {
    TORCH_CHECK(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  }
  is_transposed(a), is_transposed(b);
  TORCH_CHECK(offsets.has_value() == (a.dim() == 2 || b.dim() == 2),
              "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
  if (offsets) {
    TORCH_CHECK(offsets->dim() == 1, "offs has to be 1D");
    TORCH_CHECK(offsets->scalar_type() == ScalarType::Int, "Offsets have to be int32");
  }
  TORCH_CHECK(!if_defined(bias), "Bias not supported yet");
  TORCH_CHECK(out_type.value_or(a.scalar_type()) == a.scalar_type(),
              "Grouped gemm output dtype must match `mat_a` dtype");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected mat_a and mat_b to have the same dtype, but got ",
              a.scalar_type(), " and ", b.scalar_type());
  const Groups groups(a, b, offsets);
  at::Tensor result = groups.make_result(a, a.scalar_type());
  OnHost call("_grouped_mm", a);
  const at::Tensor left = call.in(a), right = call.in(b);
  const std::optional<at::Tensor> ends = offsets ? std::optional(call.in(*offsets)) : std::nullopt;
  at::Tensor target = call.in_place(result);
  for (const Group& group : groups.list(ends)) {
    // float32 sums, rounded once.
    const at::Tensor sum = at::mm(groups.of_a(left, group).to(at::kFloat), groups.of_b(right, group).to(at::kFloat));
    groups.of_result(target, group).copy_(sum);
  }
  call.charge_nanoseconds(groups.nanoseconds(a, b, ends));
  return result;
}

// ---- float8 with a float32 scale for each row --------------------------------------------------------------------

void check_row_scales(Matrix matrix, Matrix scale, int64_t dim, int argument, int64_t groups) {
  if (matrix.dim() == 2) {
    TORCH_CHECK(scale.dim() == 1, "scale must be a 1D tensor, but got ", scale.dim(), "D, arg ", argument);
    TORCH_CHECK(scale.is_contiguous(), "scale must be contiguous for arg ", argument);
    TORCH_CHECK(scale.size(0) == matrix.size(dim) * groups, "scale must have the same length as mat for arg ",
                argument);
    return;
  }
  TORCH_CHECK(scale.dim() == 2, "scale must be a 2D tensor, but got ", scale.dim(), "D for arg ", argument);
  TORCH_CHECK(scale.stride(1) == 1, "scale must be contiguous in the last dimension for arg ", argument);
  TORCH_CHECK(scale.size(0) == matrix.size(0), "scale must have the same batch dimension as mat for arg ", argument);
  TORCH_CHECK(scale.size(1) == matrix.size(1 + dim), "scale must have the same first dimension as mat for arg ",
              argument);
}

at::Tensor row_wise(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, MaybeTensor offsets) {
  const Groups groups(a, b, offsets);
  const int64_t repeated = groups.divides_k() ? offsets->size(0) : 1;
  check_row_scales(a, scale_a, 0, 0, repeated);
  check_row_scales(b, scale_b, 1, 1, repeated);
  TORCH_CHECK_VALUE(a.scalar_type() == ScalarType::Float8_e4m3fn, "Expected mat_a to be Float8_e4m3 matrix got ",
                    a.scalar_type());
  TORCH_CHECK_VALUE(b.scalar_type() == ScalarType::Float8_e4m3fn, "Expected mat_b to be Float8_e4m3 matrix got ",
                    b.scalar_type());
  at::Tensor result = groups.make_result(a, ScalarType::BFloat16);
  OnHost call("_scaled_grouped_mm", a);
  const at::Tensor left = call.in(a), right = call.in(b), of_a = call.in(scale_a), of_b = call.in(scale_b);
  const std::optional<at::Tensor> ends = offsets ? std::optional(call.in(*offsets)) : std::nullopt;
  at::Tensor target = call.in_place(result);
  for (const Group& group : groups.list(ends)) {
    const at::Tensor part_a = groups.of_a(left, group), part_b = groups.of_b(right, group);
    at::Tensor sum = at::mm(dequantise(part_a), dequantise(part_b.t()).t());
    sum.mul_(groups.scales_of_a(of_a, group, part_a.size(0)).unsqueeze(1).to(at::kDouble));
    sum.mul_(groups.scales_of_b(of_b, group, part_b.size(1)).unsqueeze(0).to(at::kDouble));
    groups.of_result(target, group).copy_(sum.to(at::kFloat));
  }
  call.charge_nanoseconds(groups.nanoseconds(a, b, ends));
  return result;
}

void check_scaled(Matrix a, Matrix b, MaybeTensor offsets, MaybeTensor bias, MaybeType out_type) {
  check_dims(a, b);
  TORCH_CHECK_VALUE(!is_transposed(a), "Expected mat1 to not be transposed");
  TORCH_CHECK_VALUE(is_transposed(b), "Expected mat2 to be transposed");
  if (a.dim() == 3 || b.dim() == 3) {
    TORCH_CHECK_VALUE(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  }
  TORCH_CHECK_VALUE(a.size(-1) % 16 == 0, "Expected trailing dimension of mat_a to be divisible by 16 ",
                    "but got mat1 shape: (", a.sizes(), ").");
  TORCH_CHECK_VALUE(b.size(-2) % 16 == 0 && b.size(-1) % 16 == 0, "Expected mat_b shape to be divisible by 16 ",
                    "but got mat_b shape: (", b.sizes(), ").");
  TORCH_CHECK_VALUE(!if_defined(bias), "Bias not supported yet");
  check_offsets(a, b, offsets);
  TORCH_CHECK_VALUE(out_type.value_or(ScalarType::BFloat16) == ScalarType::BFloat16,
                    "Only bf16 high precision output types are supported for grouped gemm");
}

at::Tensor scaled_grouped_mm(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, MaybeTensor offsets_, MaybeTensor bias,
                             MaybeTensor scale_result, MaybeType out_type, bool) {
  const auto offsets = if_defined(offsets_);
  check_scaled(a, b, offsets, bias, out_type);
  TORCH_CHECK_VALUE(!if_defined(scale_result), "Scale result not supported yet");
  // Block scales get as far as this on ROCm.
  TORCH_CHECK_VALUE(scale_a.scalar_type() == ScalarType::Float && scale_b.scalar_type() == ScalarType::Float,
                    "For grouped FP8 rowwise, both scales must be float32 tensors");
  return row_wise(a, b, scale_a, scale_b, offsets);
}

constexpr const char* kReference =
    " (ROCm has no kernel; on the emulated device torch.ops.gfx950_emulator.mx_grouped_mm gives reference values)";

at::Tensor scaled_grouped_mm_v2(Matrix a, Matrix b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                                at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b,
                                at::IntArrayRef swizzle_b, MaybeTensor offsets_, MaybeTensor bias, MaybeType out_type,
                                at::IntArrayRef contraction, bool) {
  namespace scaled = at::native::scaled;
  const auto offsets = if_defined(offsets_);
  check_scaled(a, b, offsets, bias, out_type);
  TORCH_CHECK_VALUE(contraction.empty() || (contraction.size() == 2 && contraction[0] == -1 && contraction[1] == -2),
                    "Curently contraction dims must be (-1, -2) only");
  TORCH_CHECK_VALUE(!scale_a.empty() && !scale_b.empty(), "scale_a and scale_b must hold at least one tensor each");
  auto recipes_a = scaled::convert_int_to_enum<ScalingType>(recipe_a);
  auto recipes_b = scaled::convert_int_to_enum<ScalingType>(recipe_b);
  at::ArrayRef<at::Tensor> of_a = scale_a, of_b = scale_b;
  const auto fits = [&](auto predicate) {
    return predicate(a.scalar_type(), recipes_a, of_a, b.scalar_type(), recipes_b, of_b);
  };
  if (fits(scaled::check_rowwise_recipe)) return row_wise(a, b, scale_a[0], scale_b[0], offsets);
  if (fits(scaled::check_mxfp8_recipe)) {
    const auto none = static_cast<int64_t>(SwizzleType::NO_SWIZZLE);
    TORCH_CHECK_VALUE(a.dim() == 2, "MXFP8 grouped GEMM currently only supports 2d-2d and 2d-3d cases");
    TORCH_CHECK_VALUE(swizzle_a.size() == 1 && swizzle_b.size() == 1 && swizzle_a[0] == none && swizzle_b[0] == none,
                      "For ROCM MXFP8 grouped gemm, both scale swizzle types must be SWIZZLE_NONE");
    TORCH_CHECK_NOT_IMPLEMENTED(false, "mxfp8_mxfp8 grouped gemm requires compile with USE_MSLK", kReference);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!fits(scaled::check_mxfp4_recipe) && !fits(scaled::check_nvfp4_recipe),
                              "nvfp4 grouped gemm is not supported without USE_MSLK, and only for CUDA", kReference);
  TORCH_CHECK_VALUE(false, "No gemm implementation was found");
}

// ---- the reference with MX scales --------------------------------------------------------------------------------

void check_blocks(const char* name, Matrix matrix, Matrix scale, bool is_b) {
  const at::Tensor rows = is_b ? matrix.transpose(-1, -2) : matrix;
  const int64_t k = rows.size(-1) * packed_elements(matrix.scalar_type());
  TORCH_CHECK_VALUE(is_fp8(matrix.scalar_type()) || is_fp4(matrix.scalar_type()), "mx_grouped_mm: ", name,
                    " must be float8 or packed float4, got ", matrix.scalar_type());
  TORCH_CHECK_VALUE(is_e8m0(scale.scalar_type()), "mx_grouped_mm: scales of ", name, " must be float8_e8m0fnu, got ",
                    scale.scalar_type());
  TORCH_CHECK_VALUE(k % kMxBlock == 0, "mx_grouped_mm: K must be a multiple of 32, got ", k);
  std::vector<int64_t> expected = rows.sizes().vec();
  expected.back() = k / kMxBlock;
  TORCH_CHECK_VALUE(scale.sizes() == at::IntArrayRef(expected), "mx_grouped_mm: ", name, " of size ", matrix.sizes(),
                    " needs scales of size ", at::IntArrayRef(expected), ", not swizzled, got ", scale.sizes());
}

at::Tensor mx_grouped_mm(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, MaybeTensor offsets_, MaybeType out_type) {
  const auto offsets = if_defined(offsets_);
  check_dims(a, b);
  check_offsets(a, b, offsets);
  check_blocks("mat_a", a, scale_a, false);
  check_blocks("mat_b", b, scale_b, true);
  const int64_t packing = packed_elements(a.scalar_type());
  TORCH_CHECK_VALUE(packing == packed_elements(b.scalar_type()), "mx_grouped_mm: float8 and float4 do not mix");
  TORCH_CHECK_VALUE(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  const Groups groups(a, b, offsets);
  const ScalarType type = out_type.value_or(ScalarType::BFloat16);
  at::Tensor result = groups.make_result(a, type);
  OnHost call("mx_grouped_mm", a);
  const at::Tensor left = call.in(a), right = call.in(b), of_a = call.in(scale_a), of_b = call.in(scale_b);
  const std::optional<at::Tensor> ends = offsets ? std::optional(call.in(*offsets)) : std::nullopt;
  at::Tensor target = call.in_place(result);
  for (Group group : groups.list(ends)) {
    // Offsets count stored elements, of which packed fp4 holds two each.
    Group stored = group;
    if (groups.divides_k()) {
      TORCH_CHECK_VALUE(group.begin * packing % kMxBlock == 0 && group.end * packing % kMxBlock == 0,
                        "mx_grouped_mm: a group's K must be a multiple of 32, but it runs from ", group.begin * packing,
                        " to ", group.end * packing);
      group.begin *= packing, group.end *= packing;
    }
    const at::Tensor part_a = dequantise_mx(groups.of_a(left, stored), groups.blocks_of_a(of_a, group).contiguous());
    const at::Tensor part_b =
        dequantise_mx(groups.of_b(right, stored).t(), groups.blocks_of_b(of_b, group).contiguous());
    groups.of_result(target, stored).copy_(at::mm(part_a, part_b.t()).to(at::kFloat));
  }
  call.charge_nanoseconds(groups.nanoseconds(a, b, ends));
  return result;
}

TORCH_LIBRARY_FRAGMENT(gfx950_emulator, m) {
  m.def(
      "mx_grouped_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? offs=None, ScalarType? "
      "out_dtype=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(gfx950_emulator, CUDA, m) { m.impl("mx_grouped_mm", recorded<&mx_grouped_mm>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_grouped_mm", recorded<&grouped_mm>());
  m.impl("_scaled_grouped_mm", recorded<&scaled_grouped_mm>());
  m.impl("_scaled_grouped_mm_v2", recorded<&scaled_grouped_mm_v2>());
}

}  // namespace
}  // namespace gfx950::torch_device
