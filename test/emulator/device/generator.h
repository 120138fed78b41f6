// Random numbers of the emulated device: a seed and an offset, as on hardware. The numbers themselves come from a CPU
// generator that is seeded from both, so they are reproducible but not those of a real device.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace gfx950::torch_device {

struct GeneratorOfDevice final : public c10::GeneratorImpl {
  explicit GeneratorOfDevice(c10::DeviceIndex device_index);
  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::CUDA; }

  struct Snapshot {
    uint64_t seed, offset;
  };
  Snapshot snapshot() const { return {seed_, offset_}; }
  void restore(const Snapshot& state) { seed_ = state.seed, offset_ = state.offset; }

  // Seed for a CPU generator that draws the next numbers; moves the offset on.
  uint64_t next_host_seed();
  // Moves the offset on past `counters` Philox counters, for a kernel that draws them itself, and returns the old one.
  uint64_t take_counters(uint64_t counters);

 private:
  GeneratorOfDevice* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex device_index);
at::Generator new_generator(c10::DeviceIndex device_index);

// Makes the next new_generator() of this thread return the device's default generator: the only way to hand that one to
// Python as an object without libtorch_python.
void offer_default_generator(c10::DeviceIndex device_index);

}  // namespace gfx950::torch_device
