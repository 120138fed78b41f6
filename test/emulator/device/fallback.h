// One boxed kernel for every operator that has no kernel of its own on the device: runs ATen's CPU kernel on aliases.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <set>
#include <string>

namespace gfx950::torch_device {

void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Registers the fallback for every operator of ATen that has a CPU kernel and would take a composite one on the device,
// by way of other operators. Called once, after the kernels of the device's own are registered.
void register_cpu_kernels();

// Where the CPU has a kernel for a layout of its own, a composite one must not win on the device: registers the
// fallback for these operators.
void prefer_cpu_kernels(torch::Library& m, c10::DispatchKey on_cpu, const std::set<std::string>& own = {});

}  // namespace gfx950::torch_device
