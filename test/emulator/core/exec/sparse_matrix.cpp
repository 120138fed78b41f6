// v_smfmac_*: D += A * B, where A keeps two of each four k and a register says which. mfma.md has layouts and sources.
#include <array>
#include <cmath>
#include <cstring>

#include "../numeric/formats.h"
#include "builder.h"
#include "mfma_tiles.h"
#include "wave.h"

namespace gfx950::exec {
namespace {

using decode::Parsed;
using decode::ParsedOperand;
using numeric::Format;

constexpr unsigned kMostRows = 32, kMostK = 128;

struct Shape {
  const char* name;
  uint8_t rows;  // of A and D, and columns of B and D
  uint8_t k;     // of B; A has half of them
  const Format* a;
  const Format* b;
};

constexpr Shape kShapes[] = {
    {"v_smfmac_f32_16x16x32_f16", 16, 32, &numeric::f16, &numeric::f16},
    {"v_smfmac_f32_16x16x32_bf16", 16, 32, &numeric::bf16, &numeric::bf16},
    {"v_smfmac_f32_16x16x64_f16", 16, 64, &numeric::f16, &numeric::f16},
    {"v_smfmac_f32_16x16x64_bf16", 16, 64, &numeric::bf16, &numeric::bf16},
    {"v_smfmac_f32_32x32x16_f16", 32, 16, &numeric::f16, &numeric::f16},
    {"v_smfmac_f32_32x32x16_bf16", 32, 16, &numeric::bf16, &numeric::bf16},
    {"v_smfmac_f32_32x32x32_f16", 32, 32, &numeric::f16, &numeric::f16},
    {"v_smfmac_f32_32x32x32_bf16", 32, 32, &numeric::bf16, &numeric::bf16},
    {"v_smfmac_f32_16x16x64_fp8_fp8", 16, 64, &numeric::fp8, &numeric::fp8},
    {"v_smfmac_f32_16x16x64_fp8_bf8", 16, 64, &numeric::fp8, &numeric::bf8},
    {"v_smfmac_f32_16x16x64_bf8_fp8", 16, 64, &numeric::bf8, &numeric::fp8},
    {"v_smfmac_f32_16x16x64_bf8_bf8", 16, 64, &numeric::bf8, &numeric::bf8},
    {"v_smfmac_f32_16x16x128_fp8_fp8", 16, 128, &numeric::fp8, &numeric::fp8},
    {"v_smfmac_f32_16x16x128_fp8_bf8", 16, 128, &numeric::fp8, &numeric::bf8},
    {"v_smfmac_f32_16x16x128_bf8_fp8", 16, 128, &numeric::bf8, &numeric::fp8},
    {"v_smfmac_f32_16x16x128_bf8_bf8", 16, 128, &numeric::bf8, &numeric::bf8},
    {"v_smfmac_f32_32x32x32_fp8_fp8", 32, 32, &numeric::fp8, &numeric::fp8},
    {"v_smfmac_f32_32x32x32_fp8_bf8", 32, 32, &numeric::fp8, &numeric::bf8},
    {"v_smfmac_f32_32x32x32_bf8_fp8", 32, 32, &numeric::bf8, &numeric::fp8},
    {"v_smfmac_f32_32x32x32_bf8_bf8", 32, 32, &numeric::bf8, &numeric::bf8},
    {"v_smfmac_f32_32x32x64_fp8_fp8", 32, 64, &numeric::fp8, &numeric::fp8},
    {"v_smfmac_f32_32x32x64_fp8_bf8", 32, 64, &numeric::fp8, &numeric::bf8},
    {"v_smfmac_f32_32x32x64_bf8_fp8", 32, 64, &numeric::bf8, &numeric::fp8},
    {"v_smfmac_f32_32x32x64_bf8_bf8", 32, 64, &numeric::bf8, &numeric::bf8},
};

struct Sparse {
  const Shape* shape = nullptr;
  uint8_t set = 0;  // which of the index register's sets counts

  unsigned groups() const { return kLanes / shape->rows; }       // of lanes, each with all rows
  unsigned per_lane() const { return shape->k / 2 / groups(); }  // elements of A; B has twice as many
  unsigned bits() const { return static_cast<unsigned>(shape->a->bits()); }
  unsigned registers() const { return per_lane() * bits() / 32; }  // of A
};

// Which kept element of its row of A is at place `p` of lane group `g`.
unsigned kept_of(const Sparse& s, unsigned g, unsigned p) {
  const unsigned per_lane = s.per_lane();
  if (s.bits() == 16) return per_lane * g + p;
  if (per_lane == 8) return p / 4 * 4 * s.groups() + 4 * g + p % 4;
  const unsigned low = p % 4 | (p >> 3 & 1) << 2;
  return s.groups() == 2 ? low | (p >> 2 & 1) << 3 | g << 4 : low | (g & 1) << 3 | (p >> 2 & 1) << 4 | (g >> 1) << 5;
}

float element(const Row* registers, const Format& format, unsigned lane, unsigned place) {
  const unsigned bits = static_cast<unsigned>(format.bits()), per_register = 32 / bits;
  const uint32_t word = registers[place / per_register][lane];
  return numeric::to_f32(format, word >> (place % per_register * bits) & ((1u << bits) - 1));
}

void run(Wave& w, const Inst& in) {
  const Sparse& s = *static_cast<const Sparse*>(in.extra);
  const Row *a = &w.v[in.src[0].reg], *b = &w.v[in.src[1].reg], *index = &w.v[in.src[2].reg];
  const unsigned rows = s.shape->rows, groups = s.groups(), per_lane = s.per_lane();
  float kept[kMostRows][kMostK / 2], dense[kMostK][kMostRows];
  uint8_t at[kMostRows][kMostK / 2];  // the k of each kept element
  for (unsigned g = 0; g < groups; ++g) {
    for (unsigned i = 0; i < rows; ++i) {
      const unsigned lane = g * rows + i;
      for (unsigned p = 0; p < per_lane; ++p) {
        const unsigned c = kept_of(s, g, p), shift = 2 * (s.set * per_lane + p);
        kept[i][c] = element(a, *s.shape->a, lane, p);
        at[i][c] = static_cast<uint8_t>(c / 2 * 4 + (index[0][lane] >> shift & 3));
      }
      for (unsigned p = 0; p < 2 * per_lane; ++p) {
        dense[p / 8 * 8 * groups + 8 * g + p % 8][i] = element(b, *s.shape->b, lane, p);
      }
    }
  }
  for (unsigned i = 0; i < rows; ++i) {
    float sums[kMostRows];
    uint32_t* d = &w.v[in.dst][0] + mfma::row_offset(rows, rows, 0, i);
    std::memcpy(sums, d, rows * sizeof(float));
    for (unsigned c = 0; c < s.shape->k / 2u; ++c) {
      const float* line = dense[at[i][c]];
      for (unsigned j = 0; j < rows; ++j) sums[j] = std::fma(kept[i][c], line[j], sums[j]);
    }
    std::memcpy(d, sums, rows * sizeof(float));
  }
}

// The index register holds 32 bits, a lane's elements need two bits each, and abid chooses among the sets that fit.
uint8_t index_set(const Parsed& p, const Sparse& s) {
  const uint64_t cbsz = static_cast<uint64_t>(p.value("cbsz", 0)), abid = static_cast<uint64_t>(p.value("abid", 0));
  if (cbsz != 0 || abid == 0) return 0;  // with cbsz the first counts, whatever abid
  const unsigned sets = 16 / s.per_lane();
  if (s.bits() == 16 && s.per_lane() == 8) Builder::refuse("abid of this shape: AMD's document contradicts itself");
  if (abid >= sets) Builder::refuse("abid " + std::to_string(abid) + ": there are " + std::to_string(sets) + " sets");
  return static_cast<uint8_t>(abid);
}

void build(Builder& b, const Parsed& p, const Entry& entry, Inst& in) {
  Sparse s;
  s.shape = static_cast<const Shape*>(entry.extra);
  b.allow_modifiers(p, {"cbsz", "abid"});
  b.expect_operands(p, 4);
  s.set = index_set(p, s);
  const int words = static_cast<int>(s.registers());
  in.dst = b.vector_destination(p.operands[0], s.shape->rows * s.shape->rows / kLanes);
  const std::array<int, 3> sizes = {words, 2 * words, 1};
  for (size_t k = 0; k < sizes.size(); ++k) {
    in.src[k].kind = Operand::Kind::vector;
    in.src[k].reg = b.vector_destination(p.operands[1 + k], sizes[k]);
  }
  in.klass = Klass::mfma;
  in.cost = s.shape->rows == 16 ? 4 : 8;  // CDNA4 ISA document, table 28: 16 and 32 cycles
  in.nsrc = 3;
  in.extra = b.own(s);
  in.fn = run;
}

}  // namespace

void register_sparse_matrix(Registry& r) {
  for (const Shape& shape : kShapes) {
    Entry entry;
    entry.build = build;
    entry.extra = &shape;
    r[shape.name] = entry;
  }
}

}  // namespace gfx950::exec
