#include "generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <vector>

#include "capture.h"
#include "gfx950_hip.h"

namespace gfx950::torch_device {
namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);  // seed, offset

uint64_t mix(uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// As a replay moves the offset on by itself, a number read or set while a graph is captured would mean nothing.
void check_not_capturing(c10::DeviceIndex device, const char* call) {
  TORCH_CHECK(!capturing(device), "Cannot call CUDAGeneratorImpl::", call,
              " during CUDA graph capture. If you need this call to be captured, please file an issue. Current "
              "cudaStreamCaptureStatus: cudaStreamCaptureStatusActive");
}

}  // namespace

GeneratorOfDevice::GeneratorOfDevice(c10::DeviceIndex device_index)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::CUDA, device_index),
                         c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}

void GeneratorOfDevice::set_current_seed(uint64_t seed) {
  if (capturing(device().index())) {
    TORCH_CHECK(
        seed == seed_,
        "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as "
        "the original seed.");
    return;
  }
  seed_ = seed;
  offset_ = 0;
}

void GeneratorOfDevice::set_offset(uint64_t offset) {
  check_not_capturing(device().index(), "set_offset");
  TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4, got ", offset);
  offset_ = offset;
}

uint64_t GeneratorOfDevice::get_offset() const {
  check_not_capturing(device().index(), "get_offset");
  return offset_;
}

uint64_t GeneratorOfDevice::current_seed() const {
  check_not_capturing(device().index(), "current_seed");
  return seed_;
}

uint64_t GeneratorOfDevice::seed() {
  check_not_capturing(device().index(), "seed");
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void GeneratorOfDevice::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  TORCH_CHECK(new_state.numel() == static_cast<int64_t>(kStateBytes), "RNG state is wrong size: ", new_state.numel(),
              " bytes instead of ", kStateBytes);
  const auto* bytes = static_cast<const uint8_t*>(new_state.data());
  uint64_t values[2];
  std::memcpy(values, bytes, kStateBytes);
  set_current_seed(values[0]);
  set_offset(values[1]);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorOfDevice::get_state() const {
  at::TensorBase state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, c10::ScalarType::Byte, std::nullopt,
                                               std::nullopt, std::nullopt, std::nullopt);
  const uint64_t values[2] = {seed_, offset_};
  std::memcpy(state.mutable_data_ptr(), values, kStateBytes);
  return state.getIntrusivePtr();
}

void GeneratorOfDevice::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) {
  auto* other = dynamic_cast<GeneratorOfDevice*>(new_state.get());
  TORCH_CHECK(other, "graphsafe_set_state: not a generator of this device");
  seed_ = other->seed_;
  offset_ = other->offset_;
}

c10::intrusive_ptr<c10::GeneratorImpl> GeneratorOfDevice::graphsafe_get_state() const { return clone(); }

GeneratorOfDevice* GeneratorOfDevice::clone_impl() const {
  auto* copy = new GeneratorOfDevice(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

uint64_t GeneratorOfDevice::next_host_seed() {
  const uint64_t result = mix(mix(seed_) ^ offset_);
  offset_ += 4;
  return result;
}

uint64_t GeneratorOfDevice::take_counters(uint64_t counters) {
  const uint64_t first = offset_;
  offset_ += (counters + 3) / 4 * 4;
  return first;
}

namespace {
thread_local c10::DeviceIndex offered_default = -1;
}  // namespace

void offer_default_generator(c10::DeviceIndex device_index) { offered_default = device_index; }

at::Generator new_generator(c10::DeviceIndex device_index) {
  if (offered_default >= 0) {
    const c10::DeviceIndex offered = offered_default;
    offered_default = -1;
    return default_generator(offered);
  }
  return at::make_generator<GeneratorOfDevice>(device_index < 0 ? 0 : device_index);
}

const at::Generator& default_generator(c10::DeviceIndex device_index) {
  static auto* generators = [] {
    auto* list = new std::vector<at::Generator>;
    for (int i = 0; i < gfx950_device_count(); ++i) {
      list->push_back(at::make_generator<GeneratorOfDevice>(static_cast<c10::DeviceIndex>(i)));
    }
    return list;
  }();
  const size_t index = device_index < 0 ? 0 : static_cast<size_t>(device_index);
  TORCH_CHECK(index < generators->size(), "device ", index, " does not exist");
  return (*generators)[index];
}

}  // namespace gfx950::torch_device
