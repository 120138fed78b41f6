// Small operators that ATen has for CUDA only and that another operator's CPU kernel computes.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include "capture.h"
#include "generator.h"
#include "on_host.h"

namespace gfx950::torch_device {
namespace {

using at::Tensor;
using MaybeTensor = const std::optional<at::Tensor>&;

std::optional<Tensor> in_if_defined(OnHost& call, MaybeTensor tensor) {
  return tensor && tensor->defined() ? std::optional(call.in(*tensor)) : std::nullopt;
}

Tensor depthwise(const char* name, const Tensor& self, const Tensor& weight, at::IntArrayRef kernel, MaybeTensor bias,
                 c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation) {
  const int64_t spatial = static_cast<int64_t>(kernel.size());
  TORCH_CHECK(weight.dim() == spatial + 2 && weight.size(1) == 1 && weight.sizes().slice(2) == kernel, name,
              ": expected a weight of size [channels, 1, ", kernel, "], got ", weight.sizes());
  OnHost call(name, self);
  const Tensor x = call.in(self), w = call.in(weight);
  TORCH_CHECK(x.dim() == spatial + 2 || x.dim() == spatial + 1, name, ": expected ", spatial + 1, " or ", spatial + 2,
              " dimensions, got ", x.dim());
  const auto ints = [](c10::SymIntArrayRef values) { return C10_AS_INTARRAYREF_SLOW(values); };
  const int64_t channels = x.size(x.dim() - spatial - 1);
  const Tensor y =
      spatial == 2 ? at::conv2d(x, w, in_if_defined(call, bias), ints(stride), ints(padding), ints(dilation), channels)
                   : at::conv3d(x, w, in_if_defined(call, bias), ints(stride), ints(padding), ints(dilation), channels);
  const Tensor result = call.out(y);
  call.charge(CostClass::convolution);
  return result;
}

Tensor conv_depthwise2d(const Tensor& self, const Tensor& weight, c10::SymIntArrayRef kernel, MaybeTensor bias,
                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation) {
  return depthwise("_conv_depthwise2d", self, weight, C10_AS_INTARRAYREF_SLOW(kernel), bias, stride, padding, dilation);
}

Tensor conv_depthwise3d(const Tensor& self, const Tensor& weight, c10::SymIntArrayRef kernel, MaybeTensor bias,
                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation) {
  return depthwise("conv_depthwise3d", self, weight, C10_AS_INTARRAYREF_SLOW(kernel), bias, stride, padding, dilation);
}

// `keep` is the probability of a 1 in the mask.
std::tuple<Tensor, Tensor> fused_dropout(const Tensor& self, double keep, std::optional<at::Generator> generator) {
  TORCH_CHECK(keep > 0 && keep <= 1, "_fused_dropout: p, the probability to keep, must be in (0, 1], got ", keep);
  OnHost call("_fused_dropout", self);
  const Tensor x = call.in(self);
  at::Generator of_device = generator && generator->defined() ? *generator : default_generator(self.device().index());
  uint64_t seed = 0;
  {
    const std::lock_guard<std::mutex> lock(of_device.mutex());
    seed = at::check_generator<GeneratorOfDevice>(of_device)->next_host_seed();
  }
  at::Generator on_host = at::detail::createCPUGenerator(seed);
  const Tensor mask = at::empty(x.sizes(), at::kByte).bernoulli_(keep, on_host);
  std::tuple<Tensor, Tensor> results{call.out(x * mask.to(x.scalar_type()) / keep), call.out(mask)};
  call.charge(CostClass::memory);
  return results;
}

Tensor masked_scale(const Tensor& self, const Tensor& mask, double scale) {
  TORCH_CHECK(mask.scalar_type() == at::kByte, "_masked_scale: mask must be uint8, got ", mask.scalar_type());
  OnHost call("_masked_scale", self);
  const Tensor x = call.in(self);
  const Tensor result = call.out(x * call.in(mask).to(x.scalar_type()) * scale);
  call.charge(CostClass::memory);
  return result;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_conv_depthwise2d", recorded<&conv_depthwise2d>());
  m.impl("conv_depthwise3d", recorded<&conv_depthwise3d>());
  m.impl("_fused_dropout", recorded<&fused_dropout>());
  m.impl("_masked_scale", recorded<&masked_scale>());
}

}  // namespace
}  // namespace gfx950::torch_device
