// The matrix kernels for AVX2 with VNNI (Intel since Alder Lake, AMD since Zen 5). CMakeLists.txt
// sets the compiler's flags.
#include "matmul/kernel.h"

#if defined(__AVX2__) && defined(__AVXVNNI__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

namespace recua::matmul {

namespace {

#include "matmul/vectors_avx2.h"

// Q8_0 weights are made positive by adding 128.
constexpr bool takes_signed = false;

// Four columns for each of `count` vectors of weights.
template <Format, int32_t count> inline I add_products(I sum, const I *weights, const int8_t *values) {
  for (int32_t k = 0; k < count; k++) sum = _mm256_dpbusd_avx_epi32(sum, weights[k], four_bytes(values + 4 * k));
  return sum;
}

#include "matmul/kernel_body.h"

const Kernel kernel{"avxvnni", lanes, pack, multiply, scratch_bytes};

} // namespace

const Kernel *avxvnni_kernel() { return &kernel; }

} // namespace recua::matmul

#else

namespace recua::matmul {
const Kernel *avxvnni_kernel() { return nullptr; }
} // namespace recua::matmul

#endif
