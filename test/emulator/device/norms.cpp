// Normalisations that ATen has for CUDA only: fused RMS norm, and the pieces of synchronised batch norm.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "capture.h"
#include "cost_models.h"
#include "on_host.h"

namespace gfx950::torch_device {
namespace {

using at::Tensor;
using MaybeTensor = const std::optional<at::Tensor>&;

// Statistics have this type: float64 for float64, float32 for all else.
at::ScalarType type_of_statistics(const Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::optional<Tensor> in_if_defined(OnHost& call, MaybeTensor tensor, at::ScalarType type) {
  if (!tensor || !tensor->defined()) return std::nullopt;
  return call.in(*tensor).to(type);
}

// ---- RMS norm ----------------------------------------------------------------------------------------------------

// The dimensions that are normalised: the last ones.
std::vector<int64_t> normalised_dims(const Tensor& input, at::IntArrayRef shape) {
  const auto count = static_cast<int64_t>(shape.size());
  TORCH_CHECK(count >= 1, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one ",
              "element, but got normalized_shape = ", shape);
  TORCH_CHECK(input.dim() >= count && input.sizes().slice(input.dim() - count) == shape,
              "Given normalized_shape=", shape, ", expected input with shape [*", shape.empty() ? "" : ", ",
              c10::Join(", ", shape), "], but got input of size", input.sizes());
  std::vector<int64_t> dims;
  for (int64_t i = input.dim() - count; i < input.dim(); ++i) dims.push_back(i);
  return dims;
}

double norm_time(const Tensor& input, at::IntArrayRef shape) {
  const int64_t columns = std::max<int64_t>(1, c10::multiply_integers(shape));
  return norm_nanoseconds(input.numel() / columns, columns, static_cast<int64_t>(input.element_size()));
}

void check_weight(MaybeTensor weight, const Tensor& input, at::IntArrayRef shape) {
  if (!weight || !weight->defined()) return;
  TORCH_CHECK(weight->sizes() == shape, "Expected weight to be of same shape as normalized_shape, but got weight of ",
              "shape ", weight->sizes(), " and normalized_shape = ", shape);
  TORCH_CHECK(weight->scalar_type() == input.scalar_type(), "_fused_rms_norm: weight must have the dtype of input, ",
              input.scalar_type(), ", but has ", weight->scalar_type());
}

std::tuple<Tensor, Tensor> fused_rms_norm(const Tensor& input, at::IntArrayRef shape, MaybeTensor weight,
                                          std::optional<double> eps) {
  const std::vector<int64_t> dims = normalised_dims(input, shape);
  check_weight(weight, input, shape);
  const at::ScalarType type = type_of_statistics(input);
  OnHost call("_fused_rms_norm", input);
  const Tensor x = call.in(input).to(type);
  const double added = eps.value_or(type == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon());
  const Tensor rstd = x.square().mean(dims, /*keepdim=*/true).add_(added).rsqrt_();
  Tensor y = x * rstd;
  if (const auto scale = in_if_defined(call, weight, type)) y.mul_(*scale);
  std::tuple<Tensor, Tensor> results{call.out(y.to(input.scalar_type()).contiguous()), call.out(rstd.contiguous())};
  call.charge_nanoseconds(norm_time(input, shape));
  return results;
}

std::tuple<Tensor, Tensor> fused_rms_norm_backward(const Tensor& grad_out, const Tensor& input, at::IntArrayRef shape,
                                                   const Tensor& rstd_, MaybeTensor weight,
                                                   std::array<bool, 2> wanted) {
  const std::vector<int64_t> dims = normalised_dims(input, shape);
  check_weight(weight, input, shape);
  const at::ScalarType type = type_of_statistics(input);
  OnHost call("_fused_rms_norm_backward", input);
  const Tensor grad = call.in(grad_out).to(type), rstd = call.in(rstd_);
  const Tensor normalised = call.in(input).to(type) * rstd;
  const auto scale = in_if_defined(call, weight, type);
  std::tuple<Tensor, Tensor> results;
  if (wanted[0]) {
    const Tensor scaled = scale ? grad * *scale : grad;
    const Tensor along = (scaled * normalised).mean(dims, /*keepdim=*/true);
    std::get<0>(results) = call.out(((scaled - normalised * along) * rstd).to(input.scalar_type()).contiguous());
  }
  if (wanted[1] && scale) {
    const Tensor rows = (grad * normalised).reshape({-1, scale->numel()});
    std::get<1>(results) = call.out(rows.sum(0).reshape(shape).to(weight->scalar_type()));
  }
  // Published times are of the forward pass; this one reads twice as much.
  call.charge_nanoseconds(2.0 * norm_time(input, shape));
  return results;
}

// ---- synchronised batch norm -------------------------------------------------------------------------------------

std::vector<int64_t> all_but_channels(const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "batch norm needs an input of at least 2 dimensions, got ", input.dim());
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < input.dim(); ++i) dims.push_back(i);
  return dims;
}

Tensor along_channels(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = values.numel();
  return values.reshape(shape);
}

std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  const at::ScalarType type = type_of_statistics(input);
  const std::vector<int64_t> dims = all_but_channels(input);
  OnHost call("batch_norm_stats", input);
  const Tensor x = call.in(input).to(type);
  const Tensor mean = x.mean(dims), variance = x.var(dims, /*unbiased=*/false);
  std::tuple<Tensor, Tensor> results{call.out(mean), call.out(variance.add(eps).rsqrt())};
  call.charge(CostClass::memory);
  return results;
}

Tensor elements(OnHost& call, const Tensor& input, MaybeTensor weight, MaybeTensor bias, const Tensor& mean,
                const Tensor& invstd) {
  const at::ScalarType type = type_of_statistics(input);
  const Tensor x = call.in(input).to(type);
  Tensor y = (x - along_channels(call.in(mean).to(type), x)) * along_channels(call.in(invstd).to(type), x);
  if (const auto scale = in_if_defined(call, weight, type)) y.mul_(along_channels(*scale, x));
  if (const auto shift = in_if_defined(call, bias, type)) y.add_(along_channels(*shift, x));
  return y.to(input.scalar_type());
}

Tensor batch_norm_elemt(const Tensor& input, MaybeTensor weight, MaybeTensor bias, const Tensor& mean,
                        const Tensor& invstd, double) {
  OnHost call("batch_norm_elemt", input);
  const Tensor result = call.out(elements(call, input, weight, bias, mean, invstd));
  call.charge(CostClass::memory);
  return result;
}

Tensor& batch_norm_elemt_out(const Tensor& input, MaybeTensor weight, MaybeTensor bias, const Tensor& mean,
                             const Tensor& invstd, double, Tensor& out) {
  OnHost call("batch_norm_elemt", input);
  const Tensor result = elements(call, input, weight, bias, mean, invstd);
  call.in_place(out).resize_(result.sizes()).copy_(result);
  call.carry_back();
  call.charge(CostClass::memory);
  return out;
}

// Statistics of several processes, a row each, with the number of elements behind each row.
std::tuple<Tensor, Tensor> gather(OnHost& call, const Tensor& mean_, const Tensor& invstd_, MaybeTensor running_mean,
                                  MaybeTensor running_var, double momentum, double eps, const Tensor& counts) {
  const Tensor mean = call.in(mean_), invstd = call.in(invstd_);
  const Tensor weights = counts.to(mean.scalar_type()).reshape({-1, 1});
  const Tensor total = weights.sum();
  const Tensor overall = (mean * weights).sum(0) / total;
  const Tensor squares = ((invstd.pow(-2) - eps + (mean - overall).square()) * weights).sum(0);
  const Tensor variance = squares / total;
  const auto update = [&](MaybeTensor running, const Tensor& value) {
    if (!running || !running->defined()) return;
    Tensor target = call.in_place(*running);
    target.mul_(1 - momentum).add_((value * momentum).to(target.scalar_type()));
  };
  update(running_mean, overall);
  update(running_var, squares / (total - 1));
  return {overall, (variance + eps).rsqrt()};
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(const Tensor& input, const Tensor& mean,
                                                               const Tensor& invstd, MaybeTensor running_mean,
                                                               MaybeTensor running_var, double momentum, double eps,
                                                               const Tensor& counts) {
  OnHost call("batch_norm_gather_stats", input);
  const auto [overall, inverse] = gather(call, mean, invstd, running_mean, running_var, momentum, eps, call.in(counts));
  std::tuple<Tensor, Tensor> results{call.out(overall), call.out(inverse)};
  call.charge(CostClass::memory);
  return results;
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats(const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                                   MaybeTensor running_mean, MaybeTensor running_var, double momentum,
                                                   double eps, int64_t count) {
  OnHost call("batch_norm_gather_stats", input);
  const Tensor counts = at::full({mean.size(0)}, count, at::kDouble);
  const auto [overall, inverse] = gather(call, mean, invstd, running_mean, running_var, momentum, eps, counts);
  std::tuple<Tensor, Tensor> results{call.out(overall), call.out(inverse)};
  call.charge(CostClass::memory);
  return results;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(const Tensor& grad_out, const Tensor& input,
                                                                      const Tensor& mean, const Tensor& invstd,
                                                                      MaybeTensor weight, bool of_input, bool of_weight,
                                                                      bool of_bias) {
  const at::ScalarType type = type_of_statistics(input);
  const std::vector<int64_t> dims = all_but_channels(input);
  OnHost call("batch_norm_backward_reduce", input);
  const Tensor grad = call.in(grad_out).to(type), x = call.in(input).to(type);
  const Tensor sum = grad.sum(dims);
  const Tensor centred = (grad * (x - along_channels(call.in(mean).to(type), x))).sum(dims);
  const at::ScalarType of_parameters = weight && weight->defined() ? weight->scalar_type() : type;
  std::tuple<Tensor, Tensor, Tensor, Tensor> results;
  if (of_input) std::get<0>(results) = call.out(sum.clone()), std::get<1>(results) = call.out(centred.clone());
  if (of_weight) std::get<2>(results) = call.out((centred * call.in(invstd).to(type)).to(of_parameters));
  if (of_bias) std::get<3>(results) = call.out(sum.to(of_parameters).clone());
  call.charge(CostClass::memory);
  return results;
}

Tensor batch_norm_backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd_,
                                 MaybeTensor weight, const Tensor& sum_, const Tensor& centred_, const Tensor& counts) {
  const at::ScalarType type = type_of_statistics(input);
  OnHost call("batch_norm_backward_elemt", input);
  const Tensor grad = call.in(grad_out).to(type), x = call.in(input).to(type);
  const Tensor total = call.in(counts).sum().to(type), invstd = call.in(invstd_).to(type);
  const Tensor sum = along_channels(call.in(sum_).to(type) / total, x);
  const Tensor slope = along_channels(call.in(centred_).to(type) / total * invstd.square(), x);
  Tensor factor = invstd;
  if (const auto scale = in_if_defined(call, weight, type)) factor = factor * *scale;
  const Tensor centred = x - along_channels(call.in(mean).to(type), x);
  const Tensor result = call.out(((grad - sum - centred * slope) * along_channels(factor, x)).to(input.scalar_type()));
  call.charge(CostClass::memory);
  return result;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_fused_rms_norm", recorded<&fused_rms_norm>());
  m.impl("_fused_rms_norm_backward", recorded<&fused_rms_norm_backward>());
  m.impl("batch_norm_stats", recorded<&batch_norm_stats>());
  m.impl("batch_norm_elemt", recorded<&batch_norm_elemt>());
  m.impl("batch_norm_elemt.out", recorded<&batch_norm_elemt_out>());
  m.impl("batch_norm_gather_stats", recorded<&batch_norm_gather_stats>());
  m.impl("batch_norm_gather_stats_with_counts", recorded<&batch_norm_gather_stats_with_counts>());
  m.impl("batch_norm_backward_reduce", recorded<&batch_norm_backward_reduce>());
  m.impl("batch_norm_backward_elemt", recorded<&batch_norm_backward_elemt>());
}

}  // namespace
}  // namespace gfx950::torch_device
