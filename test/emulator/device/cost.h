// What ATen operators cost on the virtual clock: which formula of cost_models.h an operator has, and its sizes.
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
  topk,
  host_copy,  // a read by the host
};

CostClass cost_class(const c10::OperatorHandle& op);

// Advances the clock for a call whose tensors (inputs, then outputs) are these.
void charge(CostClass cost, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);

}  // namespace gfx950::torch_device
