#include "report.h"

#include <algorithm>

#include "json.h"

namespace gfx950 {
namespace {

using timing::Json;
using timing::Unit;

const char* const kSource = "modelled";

void shape(Json& out, const char* name, const Dim3& d) {
  out.key(name).open('[').value(d.x).value(d.y).value(d.z).close(']');
}

// Share of the simulated clocks in which each unit is busy.
struct Shares {
  std::vector<std::pair<const char*, double>> list;
};

Shares shares_of(const TimingReport& r, double simds) {
  const double clocks = std::max(1.0, r.unit.clocks);
  auto busy = [&](Unit unit) { return r.unit.busy[static_cast<size_t>(unit)]; };
  return {{{"mfma", busy(Unit::mfma) / clocks / simds},
           {"valu", busy(Unit::valu) / clocks / simds},
           {"salu", busy(Unit::salu) / clocks / simds},
           {"lds", busy(Unit::lds) / clocks},
           {"vmem", busy(Unit::vmem) / clocks},
           {"l2", r.unit.l2_busy / clocks},
           {"mall", r.unit.mall_busy / clocks},
           {"hbm", r.unit.hbm_busy / clocks}}};
}

void instructions(Json& out, const TimingReport& r) {
  out.key("instructions").open('[');
  for (size_t k = 0; k < r.unit.pcs.size(); ++k) {
    const timing::PcStatistics& s = r.unit.pcs[k];
    if (s.issues == 0) continue;
    out.open('{')
        .field("pc", r.program->offset[k])
        .field("text", r.program->text[k])
        .field("unit", name_of(r.units[k]));
    if (!r.sources.empty()) out.field("source", r.sources[k]);
    out.field("issues", s.issues).field("stall_cycles", s.stalls);
    out.key("stalls").open('{');
    for (int reason = 0; reason < timing::kStalls; ++reason) {
      if (s.by_reason[static_cast<size_t>(reason)] > 0) {
        out.field(name_of(static_cast<timing::Stall>(reason)), s.by_reason[static_cast<size_t>(reason)]);
      }
    }
    out.close('}');
    if (s.lds_clocks > 0) out.field("lds_cycles", s.lds_clocks).field("conflict_cycles", s.lds_conflicts);
    out.close('}');
  }
  out.close(']');
}

void timeline(Json& out, const TimingReport& r) {
  out.key("timeline").open('[');
  for (const timing::Event& e : r.unit.events) {
    out.open('{')
        .field("group", e.group)
        .field("wave", e.wave)
        .field("simd", e.simd)
        .field("pc", r.program->offset[e.pc]);
    out.field("unit", e.barrier ? "barrier" : name_of(e.unit)).field("start", e.start).field("cycles", e.clocks);
    out.close('}');
  }
  out.close(']');
}

}  // namespace

std::string to_json(const TimingReport& r) {
  const double simds = 4;
  Json out;
  out.open('{').field("kernel", r.kernel).field("source", kSource);
  shape(out, "grid", r.grid);
  shape(out, "block", r.block);
  out.field("workgroups", r.workgroups).field("waves_per_workgroup", r.waves_per_group);
  out.field("timing_only", r.timing_only ? 1 : 0);
  out.field("nanoseconds", r.nanoseconds).field("launch_nanoseconds", r.launch_nanoseconds);
  out.field("cycles", r.cycles).field("clock_ghz", r.clock_ghz).field("mfma_utilisation", r.mfma_utilisation);
  out.field("matrix_flops", r.matrix_flops);
  out.field("matrix_tflops", r.nanoseconds > 0 ? r.matrix_flops / r.nanoseconds / 1000 : 0);

  out.key("occupancy").open('{').field("workgroups_per_cu", r.resident);
  out.field("limit_workgroups_per_cu", r.occupancy.groups)
      .field("limiter", r.groups_per_unit <= r.occupancy.groups ? "grid" : r.occupancy.limiter);
  out.field("kernel_limiter", r.occupancy.limiter).field("waves_per_simd", r.resident * r.waves_per_group / simds);
  out.field("workgroups_of_fullest_cu", r.groups_per_unit).close('}');
  out.key("resources").open('{').field("vgprs", r.vgprs).field("agprs", r.agprs).field("sgprs", r.sgprs);
  out.field("lds_bytes", r.lds_bytes).field("scratch_bytes_per_lane", r.scratch_bytes);
  out.field("vgpr_spills", r.vgpr_spills).field("sgpr_spills", r.sgpr_spills).close('}');

  out.key("sampling").open('{').field("uniform", r.uniform ? 1 : 0).field("depends_on_data", r.depends_on_data ? 1 : 0);
  out.field("workgroups_simulated", r.groups_simulated).field("workgroups_replayed", r.groups_replayed);
  out.field("lines_replayed", r.lines_replayed).key("instructions_of").open('{');
  for (const auto& [index, count] : r.sampled) out.field(std::to_string(index), count);
  out.close('}').close('}');

  const double ns = std::max(1e-9, r.nanoseconds);
  out.key("memory").open('{').field("requested_bytes", r.requested_bytes).field("l2_bytes", r.l2_bytes);
  out.field("fabric_bytes", r.fabric_bytes).field("hbm_bytes", r.hbm_bytes).field("footprint_bytes", r.footprint);
  out.field("l1_hit", r.l1_hit).field("l2_hit", r.l2_hit).field("mall_hit", r.mall_hit);
  out.field("hbm_gb_per_s", r.hbm_bytes / ns).field("requested_gb_per_s", r.requested_bytes / ns).close('}');

  out.key("utilisation").open('{');
  const Shares shares = shares_of(r, simds);
  for (const auto& [name, share] : shares.list) out.field(name, share);
  out.close('}');

  out.key("main_loop").open('{').field("found", r.loop.found ? 1 : 0);
  if (r.loop.found) {
    const double clocks = std::max(1.0, r.unit.loop_simd_clocks);
    out.field("first_pc", r.program->offset[r.loop.first]).field("last_pc", r.program->offset[r.loop.last]);
    out.field("trips", r.loop.trips).field("mfma_busy", r.unit.loop_matrix_clocks / clocks);
    out.field("share_of_cycles", r.unit.loop_simd_clocks / simds / std::max(1.0, r.unit.clocks));
  }
  out.close('}');

  out.key("waves").open('{').field("simulated", r.unit.waves).field("instructions", r.unit.instructions);
  out.field("resident_cycles", r.unit.wave_clocks).key("stall_cycles_per_wave").open('{');
  for (int k = 0; k < timing::kStalls; ++k) {
    out.field(name_of(static_cast<timing::Stall>(k)),
              r.unit.stalls[static_cast<size_t>(k)] / std::max<double>(1, static_cast<double>(r.unit.waves)));
  }
  out.close('}').close('}');
  instructions(out, r);
  if (!r.unit.events.empty()) timeline(out, r);
  out.close('}');
  return out.text();
}

}  // namespace gfx950
