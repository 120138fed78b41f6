// Matrix products whose result has a wider type than their operands (`out_dtype`), which ATen has for CUDA only.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "capture.h"
#include "on_host.h"

namespace gfx950::torch_device {
namespace {

using c10::ScalarType;

void check_types(const char* name, const at::Tensor& a, const at::Tensor& b, ScalarType out_type) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), name, ": expected operands of one dtype, but they have ",
              a.scalar_type(), " and ", b.scalar_type());
  const bool half = a.scalar_type() == ScalarType::Half || a.scalar_type() == ScalarType::BFloat16;
  TORCH_CHECK(out_type == a.scalar_type() || (out_type == ScalarType::Float && half), name,
              ": out_dtype must be that of the operands, or float32 for float16 and bfloat16 operands, but it is ",
              out_type, " for ", a.scalar_type());
}

// The operands are exact in the type of the result, so nothing is rounded before the sum.
at::Tensor product(const char* name, const at::Tensor& a, const at::Tensor& b, ScalarType out_type, bool batched) {
  check_types(name, a, b, out_type);
  OnHost call(name, a);
  const at::Tensor left = call.in(a).to(out_type), right = call.in(b).to(out_type);
  const at::Tensor result = call.out(batched ? at::bmm(left, right) : at::mm(left, right));
  call.charge(CostClass::gemm);
  return result;
}

at::Tensor& product_out(const char* name, const at::Tensor& a, const at::Tensor& b, ScalarType out_type, bool batched,
                        at::Tensor& out) {
  check_types(name, a, b, out_type);
  TORCH_CHECK(out.scalar_type() == out_type, name, ": out has dtype ", out.scalar_type(), ", but out_dtype is ",
              out_type);
  OnHost call(name, a);
  const at::Tensor left = call.in(a).to(out_type), right = call.in(b).to(out_type);
  at::Tensor target = call.in_place(out);
  batched ? at::bmm_out(target, left, right) : at::mm_out(target, left, right);
  call.carry_back();
  call.charge(CostClass::gemm);
  return out;
}

void check_added(const char* name, const at::Tensor& added, const at::Tensor& a, ScalarType out_type) {
  TORCH_CHECK(added.scalar_type() == out_type || added.scalar_type() == a.scalar_type(), name,
              ": self must have the dtype of the result or of the operands, but it has ", added.scalar_type());
}

at::Tensor sum(const char* name, const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, ScalarType out_type,
               const at::Scalar& beta, const at::Scalar& alpha, bool batched) {
  check_types(name, a, b, out_type);
  check_added(name, added, a, out_type);
  OnHost call(name, a);
  const at::Tensor left = call.in(a).to(out_type), right = call.in(b).to(out_type);
  const at::Tensor base = call.in(added).to(out_type);
  const at::Tensor result =
      call.out(batched ? at::baddbmm(base, left, right, beta, alpha) : at::addmm(base, left, right, beta, alpha));
  call.charge(CostClass::gemm);
  return result;
}

at::Tensor& sum_out(const char* name, const at::Tensor& added, const at::Tensor& a, const at::Tensor& b,
                    ScalarType out_type, const at::Scalar& beta, const at::Scalar& alpha, bool batched,
                    at::Tensor& out) {
  check_types(name, a, b, out_type);
  check_added(name, added, a, out_type);
  TORCH_CHECK(out.scalar_type() == out_type, name, ": out has dtype ", out.scalar_type(), ", but out_dtype is ",
              out_type);
  OnHost call(name, a);
  const at::Tensor left = call.in(a).to(out_type), right = call.in(b).to(out_type);
  const at::Tensor base = call.in(added).to(out_type);
  at::Tensor target = call.in_place(out);
  batched ? at::baddbmm_out(target, base, left, right, beta, alpha)
          : at::addmm_out(target, base, left, right, beta, alpha);
  call.carry_back();
  call.charge(CostClass::gemm);
  return out;
}

using Matrix = const at::Tensor&;
using Factor = const at::Scalar&;

at::Tensor mm(Matrix a, Matrix b, ScalarType type) { return product("mm.dtype", a, b, type, false); }
at::Tensor bmm(Matrix a, Matrix b, ScalarType type) { return product("bmm.dtype", a, b, type, true); }
at::Tensor& mm_out(Matrix a, Matrix b, ScalarType type, at::Tensor& out) {
  return product_out("mm.dtype_out", a, b, type, false, out);
}
at::Tensor& bmm_out(Matrix a, Matrix b, ScalarType type, at::Tensor& out) {
  return product_out("bmm.dtype_out", a, b, type, true, out);
}
at::Tensor addmm(Matrix self, Matrix a, Matrix b, ScalarType type, Factor beta, Factor alpha) {
  return sum("addmm.dtype", self, a, b, type, beta, alpha, false);
}
at::Tensor baddbmm(Matrix self, Matrix a, Matrix b, ScalarType type, Factor beta, Factor alpha) {
  return sum("baddbmm.dtype", self, a, b, type, beta, alpha, true);
}
at::Tensor& addmm_out(Matrix self, Matrix a, Matrix b, ScalarType type, Factor beta, Factor alpha, at::Tensor& out) {
  return sum_out("addmm.dtype_out", self, a, b, type, beta, alpha, false, out);
}
at::Tensor& baddbmm_out(Matrix self, Matrix a, Matrix b, ScalarType type, Factor beta, Factor alpha, at::Tensor& out) {
  return sum_out("baddbmm.dtype_out", self, a, b, type, beta, alpha, true, out);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("mm.dtype", recorded<&mm>());
  m.impl("mm.dtype_out", recorded<&mm_out>());
  m.impl("bmm.dtype", recorded<&bmm>());
  m.impl("bmm.dtype_out", recorded<&bmm_out>());
  m.impl("addmm.dtype", recorded<&addmm>());
  m.impl("addmm.dtype_out", recorded<&addmm_out>());
  m.impl("baddbmm.dtype", recorded<&baddbmm>());
  m.impl("baddbmm.dtype_out", recorded<&baddbmm_out>());
}

}  // namespace
}  // namespace gfx950::torch_device
