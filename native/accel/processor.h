// Instructions that this processor and the system have, in the groups that kernels need.
#pragma once

namespace recua::accel {

bool has_avx2(); // with FMA and F16C
bool has_avx512(); // F, BW, DQ and VL
bool has_avx512_vnni();
bool has_avx_vnni(); // on vectors of AVX2

} // namespace recua::accel
