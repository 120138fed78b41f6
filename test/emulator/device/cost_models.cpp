#include "cost_models.h"

#include <algorithm>
#include <cmath>

namespace gfx950::torch_device {
namespace {

using c10::ScalarType;

constexpr double kComputeUnits = 256.0;

// Elementwise: a launch in a queue, and the bandwidth that was measured of 8,000 (vllm-project/vllm#56488).
constexpr double kLaunch = 7000.0;
constexpr double kBandwidth = 7200.0;  // bytes per nanosecond

// Every other constant is fitted to every second published row of its family; the other rows are held out.
// `bench.py --op aten_cost` prints them all.
struct GemmConstants {
  double launch;      // nanoseconds
  double efficiency;  // of the published peak, inside a tile
  double tile_bytes;  // per nanosecond and compute unit: how fast operands reach it
};
constexpr double kGemmBandwidth = 6211.0;
constexpr GemmConstants kDense{5482.0, 0.588, 46.2};
constexpr GemmConstants kMx8{20406.0, 0.303, 109.6};
constexpr GemmConstants kMx4{20406.0, 0.357, 109.6};
constexpr double kGroupGap = 4500.0;  // between two products of a group, beside their launches
constexpr double kGroupSynchronise = 25000.0;

constexpr double kAttentionLaunch = 5000.0;
constexpr double kAttentionWide = 0.362, kAttentionNarrow = 0.392;     // of the peak, head sizes from 128 on, and below
constexpr double kAttentionStart = 1049.0, kAttentionCausal = 4242.0;  // keys whose time is lost
constexpr double kBackwardFlops = 2.5;  // of the forward pass: five products instead of two; no published times

constexpr double kNormBandwidth = 4798.0;
constexpr double kNormElements = 391.0;  // per nanosecond, where rows cannot be read 4 elements at a time
constexpr int64_t kNormRowBytes = 65536;
constexpr double kNormLongRow = 1.49;  // a row that does not stay on the compute unit is read again

constexpr double kTopkLaunch = 35674.0, kTopkRow = 0.38, kTopkElement = 0.0084;

// Published peaks at 2.4 GHz, in FLOP per nanosecond.
double peak_flops(ScalarType type) {
  switch (type) {
    case ScalarType::BFloat16:
    case ScalarType::Half:
      return 2.516e6;
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2:
    case ScalarType::Char:
      return 5.033e6;
    case ScalarType::Float4_e2m1fn_x2:
      return 10.066e6;
    case ScalarType::Double:
      return 78.6e3;
    default:
      return 157.3e3;
  }
}

double item_bytes(ScalarType type) {
  return type == ScalarType::Float4_e2m1fn_x2 ? 0.5 : static_cast<double>(c10::elementSize(type));
}

double result_bytes(ScalarType type) {  // fp8 and fp4 products are bfloat16
  return std::max(2.0, item_bytes(type));
}

struct Tile {
  int64_t m, n;
};
constexpr Tile kTiles[] = {{256, 256}, {256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {32, 64},
                           {16, 64},   {64, 32},   {64, 16},   {32, 128},  {16, 128}, {128, 32}, {128, 16}};
constexpr int64_t kSmallestSplit = 128;  // of K

double ceil_divide(int64_t value, int64_t by) { return static_cast<double>((value + by - 1) / by); }

}  // namespace

double memory_nanoseconds(double bytes) { return kLaunch + bytes / kBandwidth; }

double gemm_nanoseconds(const Gemm& gemm) {
  const GemmConstants& constants = !gemm.mx ? kDense : gemm.type == ScalarType::Float4_e2m1fn_x2 ? kMx4 : kMx8;
  const auto batch = static_cast<double>(gemm.batch);
  const double size = item_bytes(gemm.type),
               results = batch * static_cast<double>(gemm.m) * static_cast<double>(gemm.n);
  const double operands = batch * static_cast<double>(gemm.m + gemm.n) * static_cast<double>(gemm.k) * size;
  const double of_memory = (operands + results * result_bytes(gemm.type)) / kGemmBandwidth;
  const double flops = peak_flops(gemm.type) / kComputeUnits * constants.efficiency;
  double least = INFINITY;
  for (const Tile& tile : kTiles) {
    const double tiles = batch * ceil_divide(gemm.m, tile.m) * ceil_divide(gemm.n, tile.n);
    for (int64_t splits = 1; splits <= 16 && (splits == 1 || gemm.k / splits >= kSmallestSplit); splits *= 2) {
      const double k = static_cast<double>(gemm.k) / static_cast<double>(splits);
      const double rounds = std::ceil(tiles * static_cast<double>(splits) / kComputeUnits);
      const double of_tile = std::max(2.0 * static_cast<double>(tile.m * tile.n) * k / flops,
                                      static_cast<double>(tile.m + tile.n) * k * size / constants.tile_bytes);
      // Partial sums of float32 are written and read once.
      const double joining = splits == 1 ? 0 : static_cast<double>(splits) * results * 8.0 / kGemmBandwidth;
      least = std::min(least, rounds * of_tile + joining);
    }
  }
  return constants.launch + std::max(least, of_memory);
}

double grouped_gemm_nanoseconds(c10::ArrayRef<int64_t> rows, int64_t n, int64_t k, ScalarType type) {
  double sum = kGroupSynchronise;
  for (const int64_t m : rows) sum += kGroupGap + (m ? gemm_nanoseconds({1, m, n, k, type}) : 0.0);
  return sum;
}

double attention_nanoseconds(const Attention& attention) {
  const double flops =
      4.0 * attention.pairs * static_cast<double>(attention.head_size) * (attention.causal ? 0.5 : 1.0);
  const double efficiency = attention.head_size >= 128 ? kAttentionWide : kAttentionNarrow;
  const double lost = attention.causal ? kAttentionCausal : kAttentionStart;
  const auto keys = static_cast<double>(std::max<int64_t>(1, attention.keys));
  return kAttentionLaunch + flops / (peak_flops(ScalarType::BFloat16) * efficiency) * (1.0 + lost / keys);
}

double attention_backward_nanoseconds(const Attention& attention) {
  return kAttentionLaunch + kBackwardFlops * (attention_nanoseconds(attention) - kAttentionLaunch);
}

double norm_nanoseconds(int64_t rows, int64_t columns, int64_t item_bytes) {
  const auto elements = static_cast<double>(rows) * static_cast<double>(columns);
  const double again = columns * item_bytes > kNormRowBytes ? kNormLongRow : 1.0;
  double time = 2.0 * elements * static_cast<double>(item_bytes) * again / kNormBandwidth;
  if (columns % 4 != 0) time = std::max(time, elements / kNormElements);
  return time;
}

double topk_nanoseconds(int64_t rows, int64_t columns) {
  return kTopkLaunch + static_cast<double>(rows) * (kTopkRow + static_cast<double>(columns) * kTopkElement);
}

double convolution_nanoseconds(double flops, double bytes, ScalarType type) {
  return kLaunch + std::max(flops / (peak_flops(type) * kDense.efficiency), bytes / kBandwidth);
}

}  // namespace gfx950::torch_device
