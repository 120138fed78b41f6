#include "kernarg.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace gfx950 {
namespace {

constexpr size_t kMaxKernarg = 1 << 20;

template <class T>
void put(std::vector<uint8_t>& segment, const KernelArgument& argument, T value) {
  if (argument.size != sizeof(T)) {
    throw Error(ErrorKind::invalid_image, "argument " + argument.value_kind + " of " + std::to_string(argument.size) +
                                              " bytes, expected " + std::to_string(sizeof(T)));
  }
  std::memcpy(segment.data() + argument.offset, &value, sizeof(T));
}

bool is_hidden(const KernelArgument& argument) { return argument.value_kind.compare(0, 7, "hidden_") == 0; }

}  // namespace

std::vector<uint8_t> build_kernarg(const Launch& launch, const Kernel& kernel) {
  const KernelInfo& info = kernel.info;
  const Descriptor& descriptor = kernel.descriptor;
  size_t explicit_end = 0, end = info.kernarg_size;
  for (const KernelArgument& argument : info.arguments) {
    const size_t last = size_t{argument.offset} + argument.size;
    end = std::max(end, last);
    if (!is_hidden(argument)) explicit_end = std::max(explicit_end, last);
  }
  end = std::max(end, 4 * (size_t{descriptor.preload_offset} + descriptor.preload_length));
  if (end > kMaxKernarg) {
    throw Error(ErrorKind::invalid_image, "kernel '" + info.name + "' has " + std::to_string(end) +
                                              " bytes of arguments; the limit is " + std::to_string(kMaxKernarg));
  }
  if (launch.kernarg_size < explicit_end) {
    throw Error(ErrorKind::invalid_launch, "kernel '" + info.name + "' takes " + std::to_string(explicit_end) +
                                               " bytes of arguments, the launch gives " +
                                               std::to_string(launch.kernarg_size));
  }
  std::vector<uint8_t> segment(end + kKernargPadding, 0xA5);
  std::memcpy(segment.data(), launch.kernarg, std::min(launch.kernarg_size, explicit_end));
  for (const KernelArgument& argument : info.arguments) {
    const std::string& kind = argument.value_kind;
    if (!is_hidden(argument)) continue;
    if (kind == "hidden_block_count_x") put<uint32_t>(segment, argument, launch.grid.x);
    if (kind == "hidden_block_count_y") put<uint32_t>(segment, argument, launch.grid.y);
    if (kind == "hidden_block_count_z") put<uint32_t>(segment, argument, launch.grid.z);
    if (kind == "hidden_group_size_x") put<uint16_t>(segment, argument, static_cast<uint16_t>(launch.block.x));
    if (kind == "hidden_group_size_y") put<uint16_t>(segment, argument, static_cast<uint16_t>(launch.block.y));
    if (kind == "hidden_group_size_z") put<uint16_t>(segment, argument, static_cast<uint16_t>(launch.block.z));
    // A grid is whole workgroups here and starts at zero.
    if (kind.compare(0, 17, "hidden_remainder_") == 0) put<uint16_t>(segment, argument, 0);
    if (kind.compare(0, 21, "hidden_global_offset_") == 0) put<uint64_t>(segment, argument, 0);
    if (kind == "hidden_grid_dims") {
      put<uint16_t>(segment, argument,
                    launch.grid.z > 1 || launch.block.z > 1   ? 3
                    : launch.grid.y > 1 || launch.block.y > 1 ? 2
                                                              : 1);
    }
    if (kind == "hidden_dynamic_lds_size") put<uint32_t>(segment, argument, launch.dynamic_lds);
    if (kind == "hidden_hostcall_buffer" && launch.host != nullptr) {
      put<uint64_t>(segment, argument, reinterpret_cast<uint64_t>(launch.host->buffer));
    }
    // Others (printf buffer, heap, queues) keep 0xA5: nothing serves them, and using such a pointer faults.
  }
  return segment;
}

void build_dispatch_packet(const Launch& launch, const KernelInfo& info, const void* kernarg, uint8_t (&packet)[64]) {
  std::memset(packet, 0, sizeof packet);
  auto at = [&](size_t offset, auto value) { std::memcpy(packet + offset, &value, sizeof value); };
  at(0, static_cast<uint16_t>(2));  // kernel dispatch
  at(2, static_cast<uint16_t>(3));  // three dimensions
  at(4, static_cast<uint16_t>(launch.block.x));
  at(6, static_cast<uint16_t>(launch.block.y));
  at(8, static_cast<uint16_t>(launch.block.z));
  at(12, launch.grid.x * launch.block.x);
  at(16, launch.grid.y * launch.block.y);
  at(20, launch.grid.z * launch.block.z);
  at(24, info.private_segment_size);
  at(28, info.group_segment_size + launch.dynamic_lds);
  at(40, reinterpret_cast<uint64_t>(kernarg));
}

}  // namespace gfx950
