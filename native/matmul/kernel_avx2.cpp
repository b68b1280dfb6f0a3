// The matrix kernels for AVX2 (Intel since Haswell, AMD since Zen). CMakeLists.txt sets the
// compiler's flags.
#include "matmul/kernel.h"

#if defined(__AVX2__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

namespace recua::matmul {

namespace {

#include "matmul/vectors_avx2.h"

// `vpmaddubsw` adds two products in 16 bits, which is too little for weights up to 255 and enough
// for magnitudes up to 128. So Q8_0 weights keep their sign, which is moved to the input.
constexpr bool takes_signed = true;

// So many of its sums fit 16 bits together: 2 × 127 × the largest weight × this number < 32,768.
constexpr int32_t sums_in_16_bits(Format format) { return format == Format::q4_k ? 8 : format == Format::q5_k ? 4 : format == Format::q6_k ? 2 : 1; }

template <Format format> inline I products_16(I weights, I x) {
  if constexpr (format == Format::q8_0) return _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights));
  return _mm256_maddubs_epi16(weights, x);
}
inline I add_to_32(I sum, I words) { return _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1))); }

// Four columns for each of `count` vectors of weights.
template <Format format, int32_t count> inline I add_products(I sum, const I *weights, const int8_t *values) {
  constexpr int32_t together = sums_in_16_bits(format) < count ? sums_in_16_bits(format) : count;
  for (int32_t k = 0; k < count; k += together) {
    I words = products_16<format>(weights[k], four_bytes(values + 4 * k));
    for (int32_t i = k + 1; i < k + together; i++) words = _mm256_add_epi16(words, products_16<format>(weights[i], four_bytes(values + 4 * i)));
    sum = add_to_32(sum, words);
  }
  return sum;
}

#include "matmul/kernel_body.h"

const Kernel kernel{"avx2", lanes, pack, multiply, scratch_bytes};

} // namespace

const Kernel *avx2_kernel() { return &kernel; }

} // namespace recua::matmul

#else

namespace recua::matmul {
const Kernel *avx2_kernel() { return nullptr; }
} // namespace recua::matmul

#endif
