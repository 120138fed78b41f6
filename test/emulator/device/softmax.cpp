// softmax and log_softmax of half types into float, which CUDA computes in one kernel and the CPU's kernels refuse. All
// other calls take the CPU's kernel, as every operator does.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "fallback.h"

namespace gfx950::torch_device {
namespace {

// The boxed calls of (input, dim, half_to_float[, out]) and (grad, output, dim, input_dtype[, out]).
template <bool backward>
void with_float(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - op.schema().arguments().size();
  const at::Tensor first = (*stack)[begin].toTensor();
  const bool special =
      backward ? (*stack)[begin + 3].toScalarType() != first.scalar_type() : (*stack)[begin + 2].toBool();
  if (!special) {
    cpu_fallback(op, keys, stack);
    return;
  }
  if (backward) {
    // The gradient of a half input from float ones: computed in float, rounded once.
    const auto type = (*stack)[begin + 3].toScalarType();
    TORCH_CHECK(first.scalar_type() == c10::ScalarType::Float && type == c10::ScalarType::Half,
                "expected input and grad types to match, or input to be at::Half and grad to be at::Float");
    (*stack)[begin + 3] = c10::ScalarType::Float;
    if (op.schema().arguments().size() == 4) {
      cpu_fallback(op, keys, stack);
      const at::Tensor result = torch::jit::pop(*stack).toTensor();
      stack->emplace_back(result.to(type));
      return;
    }
    const at::Tensor out = torch::jit::pop(*stack).toTensor();
    const auto functional = c10::Dispatcher::singleton().findSchemaOrThrow(op.schema().name().c_str(), "");
    cpu_fallback(functional, keys, stack);
    const at::Tensor result = torch::jit::pop(*stack).toTensor();
    out.resize_(result.sizes());
    stack->emplace_back(out.copy_(result));
    return;
  }
  TORCH_CHECK(first.scalar_type() == c10::ScalarType::Half || first.scalar_type() == c10::ScalarType::BFloat16,
              "conversion is supported for Half and BFloat16 types only");
  (*stack)[begin] = first.to(c10::ScalarType::Float);
  (*stack)[begin + 2] = false;
  cpu_fallback(op, keys, stack);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  for (const char* name : {"_softmax", "_softmax.out", "_log_softmax", "_log_softmax.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&with_float<false>>());
  }
  for (const char* name : {"_softmax_backward_data", "_softmax_backward_data.out", "_log_softmax_backward_data",
                           "_log_softmax_backward_data.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&with_float<true>>());
  }
}

}  // namespace
}  // namespace gfx950::torch_device
