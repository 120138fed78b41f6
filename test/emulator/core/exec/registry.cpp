#include "builder.h"
#include "valu.h"

namespace gfx950::exec {

const Registry& registry() {
  static const Registry table = [] {
    Registry r;
    register_salu(r);
    register_control(r);
    register_smem(r);
    register_valu_int(r);
    register_valu_float(r);
    register_valu_half(r);
    register_transcendental(r);
    register_convert(r);
    register_convert_scaled(r);
    register_compare(r);
    register_carry(r);
    register_packed(r);
    register_dot(r);
    register_sparse_matrix(r);
    register_lane(r);
    register_lds(r);
    register_global(r);
    register_buffer(r);
    // Moves between the two halves of the register file; both are rows of one array here.
    r["v_accvgpr_read_b32"] = r["v_accvgpr_write_b32"] = r["v_accvgpr_mov_b32"] = r.at("v_mov_b32");
    return r;
  }();
  return table;
}

}  // namespace gfx950::exec
