// CPU tensors over the bytes of device tensors, and the way back.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace gfx950::torch_device {

// The aliases of one operator call. Tensors that share a storage get aliases that share one, so that CPU kernels see
// the overlaps that exist.
class Aliases {
 public:
  explicit Aliases(c10::DeviceIndex device_index) : device_(c10::DeviceType::CUDA, device_index) {}

  // A CPU tensor over the same bytes, with the same sizes, strides and conjugate and negative bits.
  at::Tensor to_cpu(const at::Tensor& tensor);

  // Carries resizes, new storages and changed metadata from the aliases back to the device tensors, and what a sparse
  // tensor consists of.
  void carry_back();

  // The device tensor for what a CPU kernel returned: the argument itself if it returned that, else a new tensor over
  // the same bytes (moved without a copy where they are device memory already).
  at::Tensor to_device(const at::Tensor& result);

 private:
  c10::Storage storage_to_cpu(const c10::Storage& storage);
  c10::Storage storage_to_device(const c10::Storage& storage);

  // Sparse tensors (sparse_alias.cpp): of COO and compressed layouts, over aliases of their members.
  at::Tensor sparse_to_cpu(const at::Tensor& tensor);
  at::Tensor sparse_to_device(const at::Tensor& result);
  void carry_back_sparse();

  // Nested tensors with strides (nested_alias.cpp).
  at::Tensor nested_to_cpu(const at::Tensor& tensor);
  at::Tensor nested_to_device(const at::Tensor& result);

  struct StoragePair {
    c10::Storage device, cpu;
  };
  struct TensorPair {
    at::Tensor device, cpu;
  };
  c10::Device device_;
  std::vector<StoragePair> storages_;
  std::vector<TensorPair> tensors_, sparse_tensors_, nested_tensors_;
};

}  // namespace gfx950::torch_device
