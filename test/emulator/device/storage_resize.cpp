#include "storage_resize.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>

#include "capi.h"
#include "capture.h"
#include "device_memory.h"

namespace gfx950::torch_device {

void resize_storage(c10::StorageImpl* storage, size_t size) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const c10::Device device = storage->device();
  const size_t kept = std::min(size, storage->nbytes());
  if (kept != 0 && anything_captures() && capturing(device.index())) {
    refuse_in_capture(device.index(), "a storage that changes its size and keeps its content");
  }
  c10::DataPtr bytes = allocate(size, device.index(), device);
  if (kept != 0) device_allocator().copy_data(bytes.get(), storage->data(), kept);
  storage->set_data_ptr_noswap(std::move(bytes));
  storage->set_nbytes(size);
}

namespace {

// What Inductor makes of UntypedStorage.resize_ in compiled code; the base's kernel asks for a GPU build.
void resize_storage_bytes(const at::Tensor& variable, c10::SymInt size) {
  resize_storage(variable.storage().unsafeGetStorageImpl(), static_cast<size_t>(size.guard_int(__FILE__, __LINE__)));
}

TORCH_LIBRARY_IMPL(inductor, CUDA, m) { m.impl("resize_storage_bytes_", TORCH_FN(resize_storage_bytes)); }

}  // namespace
}  // namespace gfx950::torch_device

extern "C" GFX950_EXPORT int gfx950_torch_resize_storage(uint64_t storage, uint64_t size) {
  using namespace gfx950::torch_device;
  return guarded([&] { resize_storage(reinterpret_cast<c10::StorageImpl*>(storage), size); });
}
