// Operators that need a kernel of their own on the device: factories, copies, storages, and those that would otherwise
// take a composite path that the CPU backend does not take.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/zero.h>
#include <torch/library.h>

#include "alias.h"
#include "capture.h"
#include "device_memory.h"
#include "gfx950_hip.h"
#include "storage_resize.h"
#include "streams.h"
#include "sync_debug.h"

namespace gfx950::torch_device {
namespace {

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  return device && device->has_index() ? device->index() : current_device();
}

class CurrentDevice {
 public:
  explicit CurrentDevice(c10::DeviceIndex index) : previous_(current_device()) {
    if (index != previous_) set_device(index);
  }
  ~CurrentDevice() {
    if (current_device() != previous_) set_device(previous_);
  }

 private:
  c10::DeviceIndex previous_;
};

void check_not_pinned(std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

c10::ScalarType type_or_default(std::optional<c10::ScalarType> type) {
  return type.value_or(c10::get_default_dtype_as_scalartype());
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> format) {
  check_not_pinned(pin_memory);
  const CurrentDevice guard(index_of(device));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA), type_or_default(type), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_not_pinned(pin_memory);
  const CurrentDevice guard(index_of(device));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           &device_allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           type_or_default(type));
}

// Zeros that take no memory, for derivatives that are zero. Their storage has a size and no bytes, and they carry a key
// that makes ATen materialise them before a kernel would read them.
at::Tensor zero_tensor(c10::SymIntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                       std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_not_pinned(pin_memory);
  at::native::ZeroTensorAllocator allocator(c10::Device(c10::DeviceType::CUDA, index_of(device)));
  at::Tensor zeros = at::detail::empty_generic(
      C10_AS_INTARRAYREF_SLOW(size), &allocator,
      c10::DispatchKeySet(c10::DispatchKey::CUDA) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
      type_or_default(type), std::nullopt);
  zeros.storage().unsafeGetStorageImpl()->set_resizable(false);  // its allocator ends here
  return zeros;
}

void copy_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// A graph can hold a copy from or to the host only if nobody waits for it, and that takes pinned memory.
void record_copy(const at::Tensor& self, const at::Tensor& source, bool non_blocking, c10::DeviceIndex device) {
  const bool with_host = self.is_cpu() || source.is_cpu();
  const at::Tensor& host = self.is_cpu() ? self : source;
  TORCH_CHECK(
      !with_host || host.is_pinned(),
      "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please "
      "use tensor.pin_memory() or allocate the tensor with pin_memory=True.");
  if (with_host && !non_blocking) refuse_in_capture(device, "aten::copy_");
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{self, source, non_blocking};
  record_call(op, c10::DispatchKeySet(c10::DispatchKey::CUDA), &stack, &copy_boxed, device);
}

// Any direction between host and device, and between devices; dtype and strides may differ.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (C10_UNLIKELY(anything_captures())) {
    const c10::DeviceIndex device = (self.is_cuda() ? self : source).device().index();
    if (capturing(device)) {
      record_copy(self, source, non_blocking, device);
      return self;
    }
  }
  if (!non_blocking && self.device() != source.device() && !(self.is_cuda() && source.is_cuda())) {
    warn_or_raise_on_sync();
  }
  raise_pending_error();
  if (self.is_same(source)) return self;
  TORCH_CHECK(!self._is_zerotensor(), "ZeroTensors are immutable: take a .clone() of this one to write to it");
  if (source._is_zerotensor()) return self.zero_();
  TORCH_CHECK(self.device().is_cpu() || self.is_cuda(), "copy_: cannot copy to ", self.device());
  TORCH_CHECK(source.device().is_cpu() || source.is_cuda(), "copy_: cannot copy from ", source.device());
  Aliases of_self(self.is_cuda() ? self.device().index() : 0),
      of_source(source.is_cuda() ? source.device().index() : 0);
  const bool one_device = self.device() == source.device();
  at::Tensor destination = self.is_cuda() ? of_self.to_cpu(self) : self;
  const at::Tensor origin = !source.is_cuda() ? source : one_device ? of_self.to_cpu(source) : of_source.to_cpu(source);
  at::_ops::copy_::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), destination, origin, non_blocking);
  const size_t bytes = self.numel() * std::max(self.itemsize(), source.itemsize());
  if (self.is_cuda() && source.is_cuda()) {
    gfx950_charge_device_copy(bytes);
  } else {
    gfx950_charge_host_copy(bytes);
  }
  return self;
}

void copy_boxed(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const bool non_blocking = torch::jit::pop(*stack).toBool();
  const at::Tensor source = torch::jit::pop(*stack).toTensor();
  at::Tensor self = torch::jit::pop(*stack).toTensor();
  stack->emplace_back(copy_(self, source, non_blocking));
}

// ---- storages ----------------------------------------------------------------------------------------------------

at::Tensor& set_storage(at::Tensor& self, c10::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                        c10::SymIntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device() || self.numel() == 0,
              "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(), "\"");
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const c10::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(size);
  const int64_t first = offset.expect_int();
  TORCH_CHECK(first >= 0, "Tensor: invalid storage offset ", first);
  std::vector<int64_t> strides;
  if (stride.empty() && !sizes.empty()) {
    strides.assign(sizes.size(), 1);
    for (size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  } else {
    const c10::IntArrayRef given = C10_AS_INTARRAYREF_SLOW(stride);
    strides.assign(given.begin(), given.end());
  }
  TORCH_CHECK(strides.size() == sizes.size(), "mismatch in length of strides and shape");
  const size_t needed = at::detail::computeStorageNbytes(sizes, strides, self.itemsize(), first);
  if (needed > source.nbytes()) resize_storage(source.unsafeGetStorageImpl(), needed);
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_sizes_and_strides(sizes, strides, first);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, c10::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {c10::SymInt(elements)}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage(self, source.storage(), source.storage_offset(), c10::fromIntArrayRefSlow(source.sizes()),
                     c10::fromIntArrayRefSlow(source.strides()));
}

at::Tensor& set_empty(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, allocate(0, self.device().index(), self.device()),
                       &device_allocator(), true);
  return set_storage(self, std::move(storage), 0, {c10::SymInt(0)}, {});
}

void record_stream(at::Tensor&, c10::Stream) {}  // streams are synchronous: memory is never reused too early

// The device has no cuDNN and no MIOpen.
bool no_ctc_library(const at::Tensor&, const at::Tensor&, c10::IntArrayRef, c10::IntArrayRef, int64_t) { return false; }
bool no_ctc_library_for_tensors(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t) {
  return false;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(zero_tensor));
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("record_stream", TORCH_FN(record_stream));
  for (const char* name : {"_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"}) {
    m.impl(name, TORCH_FN(no_ctc_library));
    m.impl((std::string(name) + ".Tensor").c_str(), TORCH_FN(no_ctc_library_for_tensors));
  }
}

}  // namespace
}  // namespace gfx950::torch_device
