// One boxed kernel for every operator that has no kernel of its own on the device: runs ATen's CPU kernel on aliases.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace gfx950::torch_device {

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace gfx950::torch_device
