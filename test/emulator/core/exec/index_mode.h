// Vector registers whose numbers M0 chooses, between s_set_gpr_idx_on and s_set_gpr_idx_off.
#pragma once

#include "inst.h"

namespace gfx950::exec {

// Makes a v_mov_b32 one of the index mode, the only instruction that is modelled in it. Throws std::invalid_argument
// for forms that are not.
void index_move(Inst& in);

}  // namespace gfx950::exec
