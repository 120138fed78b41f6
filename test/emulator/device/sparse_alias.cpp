// Sparse tensors of the device: their members are dense tensors of the device, and an alias consists of aliases.
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/SparseTensorUtils.h>
#include <torch/library.h>

#include "alias.h"
#include "fallback.h"

namespace gfx950::torch_device {
namespace {

using c10::DispatchKey;

// Members that an operator's CPU kernel reads or made.
struct Members {
  at::Tensor first, second, values;  // indices alone, or compressed and plain indices
};

bool is_coo(const at::Tensor& tensor) { return tensor.layout() == c10::kSparse; }

at::SparseTensorImpl* coo(const at::Tensor& tensor) { return at::sparse::get_sparse_impl(tensor); }
at::SparseCsrTensorImpl* compressed(const at::Tensor& tensor) { return at::sparse_csr::get_sparse_csr_impl(tensor); }

Members members_of(const at::Tensor& tensor) {
  if (is_coo(tensor)) return {coo(tensor)->indices(), {}, coo(tensor)->values()};
  return {compressed(tensor)->compressed_indices(), compressed(tensor)->plain_indices(), compressed(tensor)->values()};
}

// Makes `to` consist of `members`, with the sizes of `like`.
void set_members(const at::Tensor& to, const Members& members, const at::Tensor& like) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (is_coo(like)) {
    at::SparseTensorImpl* impl = coo(to);
    impl->raw_resize_(coo(like)->sparse_dim(), coo(like)->dense_dim(), like.sizes());
    impl->set_indices_and_values_unsafe(members.first, members.values);
    impl->set_coalesced(coo(like)->coalesced());
  } else {
    compressed(to)->set_member_tensors(members.first, members.second, members.values, like.sizes());
  }
}

// A sparse tensor of `like`'s layout, dtype and sizes on another device.
at::Tensor make_sparse(const at::Tensor& like, const Members& members, c10::Device device) {
  const bool cuda = device.is_cuda();
  at::Tensor tensor;
  if (is_coo(like)) {
    const c10::DispatchKeySet keys(cuda ? DispatchKey::SparseCUDA : DispatchKey::SparseCPU);
    tensor = at::detail::make_tensor<at::SparseTensorImpl>(keys, like.dtype());
  } else {
    const c10::DispatchKeySet keys(cuda ? DispatchKey::SparseCsrCUDA : DispatchKey::SparseCsrCPU);
    tensor = at::detail::make_tensor<at::SparseCsrTensorImpl>(keys, device, like.layout(), like.dtype());
  }
  set_members(tensor, members, like);
  return tensor;
}

}  // namespace

at::Tensor Aliases::sparse_to_cpu(const at::Tensor& tensor) {
  for (const TensorPair& pair : sparse_tensors_) {
    if (pair.device.is_same(tensor)) return pair.cpu;
  }
  Members members = members_of(tensor);
  for (at::Tensor* member : {&members.first, &members.second, &members.values}) {
    if (member->defined()) *member = to_cpu(*member);
  }
  at::Tensor cpu = make_sparse(tensor, members, c10::Device(c10::DeviceType::CPU));
  sparse_tensors_.push_back({tensor, cpu});
  return cpu;
}

at::Tensor Aliases::sparse_to_device(const at::Tensor& result) {
  for (const TensorPair& pair : sparse_tensors_) {
    if (pair.cpu.is_same(result)) return pair.device;
  }
  Members members = members_of(result);
  for (at::Tensor* member : {&members.first, &members.second, &members.values}) {
    if (member->defined()) *member = to_device(*member);
  }
  at::Tensor tensor = make_sparse(result, members, device_);
  sparse_tensors_.push_back({tensor, result});
  return tensor;
}

void Aliases::carry_back_sparse() {
  for (const TensorPair& pair : sparse_tensors_) {
    Members members = members_of(pair.cpu);
    const Members before = members_of(pair.device);
    bool changed = pair.cpu.sizes() != pair.device.sizes();
    if (is_coo(pair.cpu)) changed = changed || coo(pair.cpu)->coalesced() != coo(pair.device)->coalesced();
    const std::pair<at::Tensor*, const at::Tensor*> all[] = {
        {&members.first, &before.first}, {&members.second, &before.second}, {&members.values, &before.values}};
    for (const auto& [member, old] : all) {
      if (!member->defined()) continue;
      *member = to_device(*member);
      changed = changed || !member->is_same(*old);
    }
    if (changed) set_members(pair.device, members, pair.cpu);
  }
}

}  // namespace gfx950::torch_device
