// The attention kernels for AVX-512. CMakeLists.txt sets the compiler's flags.
#include "attention/kernel.h"

#if defined(__AVX512F__) && defined(__GNUC__)

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // vectors that GCC's own header starts from
#endif
#include <immintrin.h>
#include <math.h>
#include <string.h>

namespace recua::attention {

namespace {

using V = __m512;
constexpr int W = 16;
constexpr int tile_vectors = 4;
constexpr int32_t few_rows = 6;

inline V load(const float *from) { return _mm512_loadu_ps(from); }
inline void store(float *to, V v) { _mm512_storeu_ps(to, v); }
inline V zero() { return _mm512_setzero_ps(); }
inline V all(float x) { return _mm512_set1_ps(x); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V add(V a, V b) { return _mm512_add_ps(a, b); }
inline V sub(V a, V b) { return _mm512_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm512_mul_ps(a, b); }
inline V div(V a, V b) { return _mm512_div_ps(a, b); }
inline V most(V a, V b) { return _mm512_max_ps(a, b); }
inline float largest(V v) { return _mm512_reduce_max_ps(v); }
inline float sum(V v) { return _mm512_reduce_add_ps(v); }
inline V from_f16(const uint16_t *from) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from))); }
inline V from_bf16(const uint16_t *from) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from))), 16));
}
inline V from_i8(const int8_t *from) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
}
inline V rounded(V v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline V times_power(V v, V n) { return _mm512_scalef_ps(v, n); }
inline V where_less(V a, V b, V x, V y) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x); }

inline V low(V a, V b) { return _mm512_unpacklo_ps(a, b); }
inline V high(V a, V b) { return _mm512_unpackhi_ps(a, b); }
inline V low_pairs(V a, V b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }
inline V high_pairs(V a, V b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }

inline void transpose(V *v) {
  V t[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) { // 4 × 4 squares within each quarter
    const V a = low(v[i], v[i + 1]), b = high(v[i], v[i + 1]), c = low(v[i + 2], v[i + 3]), d = high(v[i + 2], v[i + 3]);
    t[i] = low_pairs(a, c);
    t[i + 1] = high_pairs(a, c);
    t[i + 2] = low_pairs(b, d);
    t[i + 3] = high_pairs(b, d);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) { // then the quarters
    const V a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xDD);
    const V c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xDD);
    v[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    v[i + 8] = _mm512_shuffle_f32x4(a, c, 0xDD);
    v[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
    v[i + 12] = _mm512_shuffle_f32x4(b, d, 0xDD);
  }
}

inline V sums(V *v) {
  V quarters[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    V *four = v + 4 * i;
    const V a = add(low(four[0], four[1]), high(four[0], four[1]));
    const V b = add(low(four[2], four[3]), high(four[2], four[3]));
    quarters[i] = add(low_pairs(a, b), high_pairs(a, b));
  }
  const auto halves = [](V a, V b) { return add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE)); };
  const V a = halves(quarters[0], quarters[1]);
  const V b = halves(quarters[2], quarters[3]);
  return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}

#include "attention/kernel_body.h"

const Kernel kernel{"avx512", attend, join};

} // namespace

const Kernel *avx512_kernel() { return &kernel; }

} // namespace recua::attention

#else

namespace recua::attention {
const Kernel *avx512_kernel() { return nullptr; }
} // namespace recua::attention

#endif
