// What the timing model knows of each instruction of a program, worked out once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../exec/program.h"
#include "params.h"

namespace gfx950::timing {

enum class Unit : uint8_t { valu, mfma, salu, smem, vmem, lds, branch, internal };
constexpr int kUnits = 8;
const char* name_of(Unit unit);

enum class Internal : uint8_t { none, waitcnt, nop, sleep, setprio, barrier, end, other };

struct Record {
  Unit unit = Unit::internal;
  Internal internal = Internal::none;
  uint8_t slots = 1;       // of the vector ALU
  uint8_t passes = 0;      // of the matrix unit
  uint8_t valu_wait = 0;   // slots for which the wave's vector instructions wait behind this matrix one
  uint16_t argument = 0;   // of s_nop, s_sleep and s_setprio
  bool store = false;      // vector memory: returns nothing
  bool dma = false;        // to LDS
  bool scratch = false;    // of the lanes' private memory
  bool keeps_old = false;  // of its destination: lanes, a half, or the addend
  bool counts_vm = false, counts_lgkm = false;
  double flops = 0;  // of a matrix instruction, all lanes
  const hazards::Usage* usage = nullptr;
};

std::vector<Record> records_of(const exec::Program& program);

}  // namespace gfx950::timing
