// What ATen operators cost on the virtual clock: a roofline, stated in README.md with its sources.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace gfx950::torch_device {

enum class CostClass {
  none,    // metadata only: views, empty, resize
  memory,  // bytes over bandwidth
  gemm,    // mm, addmm, bmm, baddbmm and their kin
  convolution,
  host_copy,  // a read by the host
};

CostClass cost_class(const c10::OperatorHandle& op);

// Advances the clock for a call whose tensors (inputs, then outputs) are these.
void charge(CostClass cost, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);

// The modelled time of a matrix product, in nanoseconds, launch included.
double gemm_nanoseconds(int64_t batch, int64_t m, int64_t n, int64_t k, c10::ScalarType type, double bytes);

}  // namespace gfx950::torch_device
