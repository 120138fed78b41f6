// Nested tensors of the device, with strides: their pieces lie in one storage, and an alias has one over it.
#include <ATen/ATen.h>
#include <ATen/NestedTensorImpl.h>
#include <torch/library.h>

#include "alias.h"
#include "fallback.h"

namespace gfx950::torch_device {
namespace {

using at::native::NestedTensorImpl;
using c10::DispatchKey;

// Sizes, strides and offsets of the pieces lie on the host, on either side.
at::Tensor make_nested(const at::Tensor& like, c10::Storage storage, DispatchKey key) {
  const NestedTensorImpl* impl = at::native::get_nested_tensor_impl(like);
  return at::detail::make_tensor<NestedTensorImpl>(
      std::move(storage), c10::DispatchKeySet({key, DispatchKey::AutogradNestedTensor}), like.dtype(),
      impl->get_nested_sizes(), impl->get_nested_strides(), impl->get_storage_offsets());
}

}  // namespace

at::Tensor Aliases::nested_to_cpu(const at::Tensor& tensor) {
  for (const TensorPair& pair : nested_tensors_) {
    if (pair.device.is_same(tensor)) return pair.cpu;
  }
  at::Tensor cpu = make_nested(tensor, storage_to_cpu(tensor.storage()), DispatchKey::NestedTensorCPU);
  nested_tensors_.push_back({tensor, cpu});
  return cpu;
}

at::Tensor Aliases::nested_to_device(const at::Tensor& result) {
  for (const TensorPair& pair : nested_tensors_) {
    if (pair.cpu.is_same(result)) return pair.device;
  }
  at::Tensor tensor = make_nested(result, storage_to_device(result.storage()), DispatchKey::NestedTensorCUDA);
  nested_tensors_.push_back({tensor, result});
  return tensor;
}

namespace {

// To another type or device, where the fallback would bring the result back.
at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool> pin_memory, bool non_blocking,
                   std::optional<at::MemoryFormat>) {
  const NestedTensorImpl* impl = at::native::get_nested_tensor_impl(self);
  const at::Tensor pieces =
      at::_to_copy(impl->get_unsafe_storage_as_tensor(), dtype, layout, device, pin_memory, non_blocking, std::nullopt);
  return at::detail::make_tensor<NestedTensorImpl>(pieces, impl->get_nested_sizes(), impl->get_nested_strides(),
                                                   impl->get_storage_offsets());
}

// What lies on the host stays there.
at::Tensor sizes_of(const at::Tensor& self) { return at::native::get_nested_tensor_impl(self)->get_nested_sizes(); }
at::Tensor strides_of(const at::Tensor& self) { return at::native::get_nested_tensor_impl(self)->get_nested_strides(); }
at::Tensor offsets_of(const at::Tensor& self) {
  return at::native::get_nested_tensor_impl(self)->get_storage_offsets();
}

TORCH_LIBRARY_IMPL(_, NestedTensorCUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
TORCH_LIBRARY_IMPL(aten, NestedTensorCUDA, m) {
  m.impl("_to_copy", TORCH_FN(to_copy));
  m.impl("_nested_tensor_size", TORCH_FN(sizes_of));
  m.impl("_nested_tensor_strides", TORCH_FN(strides_of));
  m.impl("_nested_tensor_storage_offsets", TORCH_FN(offsets_of));
}

}  // namespace
}  // namespace gfx950::torch_device
