#include "on_host.h"

#include "capture.h"
#include "device_memory.h"
#include "gfx950_hip.h"

namespace gfx950::torch_device {

OnHost::OnHost(const char* name, const at::Tensor& like)
    : name_(name), device_(like.device()), aliases_(like.device().index()) {
  // A kernel that is registered without recorded<>() would run now, and not in the graph.
  TORCH_CHECK(!capturing(device_.index()), name, " cannot be captured into a graph on the emulated device");
  raise_pending_error();
}

at::Tensor OnHost::in(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  TORCH_CHECK(tensor.device() == device_,
              "Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
              tensor.device(), "! (when checking arguments of ", name_, ")");
  inputs_.push_back(tensor);
  return aliases_.to_cpu(tensor);
}

at::Tensor OnHost::in_place(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device() == device_, "Expected out tensor to be on ", device_, ", but it is on ", tensor.device(),
              " (when checking arguments of ", name_, ")");
  outputs_.push_back(tensor);
  return aliases_.to_cpu(tensor);
}

at::Tensor OnHost::out(const at::Tensor& result) {
  if (!result.defined()) return result;
  outputs_.push_back(aliases_.to_device(result));
  return outputs_.back();
}

void OnHost::charge(CostClass cost) const { torch_device::charge(cost, inputs_, outputs_); }

void OnHost::charge_nanoseconds(double nanoseconds) const { gfx950_clock_advance_ns(nanoseconds); }

}  // namespace gfx950::torch_device
