// Kernels of the device that are written with ATen, on CPU aliases of their arguments. They count as one launch.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "alias.h"
#include "cost.h"

namespace gfx950::torch_device {

// One call of such a kernel. What it computes in between lives in the host's own memory; only results are device
// memory.
class OnHost {
 public:
  // `like` is an argument on the device of the call.
  OnHost(const char* name, const at::Tensor& like);

  // The CPU alias of an argument; undefined for an undefined one.
  at::Tensor in(const at::Tensor& tensor);
  // The same for an out argument: it is written, and carry_back() brings its new size to the device.
  at::Tensor in_place(const at::Tensor& tensor);
  void carry_back() { aliases_.carry_back(); }
  // The device tensor of a result; undefined for an undefined one.
  at::Tensor out(const at::Tensor& result);
  // Charges the clock; the last thing that a kernel does.
  void charge(CostClass cost) const;
  void charge_nanoseconds(double nanoseconds) const;

 private:
  const char* name_;
  c10::Device device_;
  Aliases aliases_;
  std::vector<at::Tensor> inputs_, outputs_;
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
};

}  // namespace gfx950::torch_device
