#include "alias.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstring>

#include "device_memory.h"

namespace gfx950::torch_device {
namespace {

// An alias keeps the device storage alive.
void release_owner(void* context) {
  c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(context));
}

bool is_alias(const c10::DataPtr& pointer) { return pointer.get_deleter() == &release_owner; }

void copy_metadata(const at::Tensor& from, const at::Tensor& to) {
  c10::TensorImpl* impl = to.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
  impl->_set_conj(from.is_conj());
  impl->_set_neg(from.is_neg());
}

bool same_metadata(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset() &&
         a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

at::Tensor make_tensor(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  // A zero tensor has no bytes; without its key a kernel would look for them.
  c10::DispatchKeySet keys(key);
  if (like._is_zerotensor()) keys = keys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  at::Tensor tensor(std::move(impl));
  copy_metadata(like, tensor);
  return tensor;
}

// Device memory with the bytes of a CPU storage: moved if it is device memory that only got a CPU label, else copied.
// A zero tensor's storage has a size and no bytes, on either side.
c10::DataPtr take_bytes(c10::StorageImpl* storage, c10::Device device) {
  if (!storage->data()) return c10::DataPtr(nullptr, device);
  if (is_device_memory(storage->data_ptr()))
    return relabel(storage->set_data_ptr(c10::DataPtr(nullptr, c10::DeviceType::CPU)), device);
  c10::DataPtr bytes = allocate(storage->nbytes(), device.index(), device);
  if (storage->nbytes()) std::memcpy(bytes.get(), storage->data(), storage->nbytes());
  return bytes;
}

}  // namespace

c10::Storage Aliases::storage_to_cpu(const c10::Storage& storage) {
  for (const StoragePair& pair : storages_) {
    if (pair.device.is_alias_of(storage)) return pair.cpu;
  }
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  void* owner = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl).release();
  c10::DataPtr bytes(impl->mutable_data(), owner, &release_owner, c10::Device(c10::DeviceType::CPU));
  c10::Storage cpu(c10::Storage::use_byte_size_t(), impl->nbytes(), std::move(bytes), &scoped_cpu_allocator(),
                   impl->resizable());
  storages_.push_back({storage, cpu});
  return cpu;
}

c10::Storage Aliases::storage_to_device(const c10::Storage& storage) {
  for (const StoragePair& pair : storages_) {
    if (pair.cpu.is_alias_of(storage)) return pair.device;
  }
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const size_t size = impl->nbytes();
  c10::Storage device(c10::Storage::use_byte_size_t(), size, take_bytes(impl, device_), &device_allocator(), true);
  storages_.push_back({device, storage});
  return device;
}

at::Tensor Aliases::to_cpu(const at::Tensor& tensor) {
  for (const TensorPair& pair : tensors_) {
    if (pair.device.is_same(tensor)) return pair.cpu;
  }
  if (tensor.is_sparse() || at::sparse_csr::is_sparse_compressed(tensor)) return sparse_to_cpu(tensor);
  if (tensor.is_nested()) return nested_to_cpu(tensor);
  (void)tensor.unsafeGetTensorImpl()->storage();  // raises the message of a tensor whose memory was taken back
  TORCH_CHECK(tensor.has_storage(), "the emulated device has no operator for a tensor of layout ", tensor.layout());
  at::Tensor cpu = make_tensor(storage_to_cpu(tensor.storage()), c10::DispatchKey::CPU, tensor);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
  tensors_.push_back({tensor, cpu});
  return cpu;
}

void Aliases::carry_back() {
  for (const StoragePair& pair : storages_) {
    c10::StorageImpl* cpu = pair.cpu.unsafeGetStorageImpl();
    c10::StorageImpl* device = pair.device.unsafeGetStorageImpl();
    if (is_alias(cpu->data_ptr()) && cpu->nbytes() == device->nbytes()) continue;
    // The kernel resized the storage. Its bytes are in a new allocation, or the old one under a smaller size.
    const size_t size = cpu->nbytes();
    if (!is_alias(cpu->data_ptr())) device->set_data_ptr_noswap(take_bytes(cpu, device_));
    device->set_nbytes(size);
  }
  for (const TensorPair& pair : tensors_) {
    const bool new_storage = !storage_to_device(pair.cpu.storage()).is_alias_of(pair.device.storage());
    if (new_storage) {
      pair.device.unsafeGetTensorImpl()->set_storage_keep_dtype(storage_to_device(pair.cpu.storage()));
    }
    if (!same_metadata(pair.device, pair.cpu)) copy_metadata(pair.cpu, pair.device);
  }
  if (!sparse_tensors_.empty()) carry_back_sparse();
}

at::Tensor Aliases::to_device(const at::Tensor& result) {
  for (const TensorPair& pair : tensors_) {
    if (pair.cpu.is_same(result)) return pair.device;
  }
  if (result.is_sparse() || at::sparse_csr::is_sparse_compressed(result)) return sparse_to_device(result);
  if (result.is_nested()) return nested_to_device(result);
  TORCH_CHECK(result.has_storage(), "the emulated device cannot return a tensor of layout ", result.layout());
  at::Tensor tensor = make_tensor(storage_to_device(result.storage()), c10::DispatchKey::CUDA, result);
  tensors_.push_back({tensor, result});
  return tensor;
}

}  // namespace gfx950::torch_device
