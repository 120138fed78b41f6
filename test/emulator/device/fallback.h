// One boxed kernel for every operator that has no kernel of its own on the device: runs ATen's CPU kernel on aliases.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <string>

namespace gfx950::torch_device {

void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Registers the fallback for every operator of ATen that has a CPU kernel (of the same layout) and would take a
// composite one on the device, by way of other operators. Called once, after the kernels of the device's own are
// registered.
void register_cpu_kernels();

}  // namespace gfx950::torch_device
