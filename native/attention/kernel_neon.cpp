// The attention kernels for 64-bit ARM. All these processors have NEON.
#include "attention/kernel.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>
#include <string.h>

namespace recua::attention {

namespace {

using V = float32x4_t;
constexpr int W = 4;
constexpr int tile_vectors = 4;
constexpr int32_t few_rows = 4;

inline V load(const float *from) { return vld1q_f32(from); }
inline void store(float *to, V v) { vst1q_f32(to, v); }
inline V zero() { return vdupq_n_f32(0); }
inline V all(float x) { return vdupq_n_f32(x); }
inline V fma(V a, V b, V c) { return vfmaq_f32(c, a, b); }
inline V add(V a, V b) { return vaddq_f32(a, b); }
inline V sub(V a, V b) { return vsubq_f32(a, b); }
inline V mul(V a, V b) { return vmulq_f32(a, b); }
inline V div(V a, V b) { return vdivq_f32(a, b); }
inline V most(V a, V b) { return vmaxq_f32(a, b); }
inline float largest(V v) { return vmaxvq_f32(v); }
inline float sum(V v) { return vaddvq_f32(v); }
inline V from_f16(const uint16_t *from) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))); }
inline V from_bf16(const uint16_t *from) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16)); }
inline V from_i8(const int8_t *from) {
  const int8_t four[8] = {from[0], from[1], from[2], from[3]};
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(four)))));
}
inline V rounded(V v) { return vrndnq_f32(v); }
inline V times_power(V v, V n) {
  return vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23)));
}
inline V where_less(V a, V b, V x, V y) { return vbslq_f32(vcltq_f32(a, b), x, y); }

inline void transpose(V *v) {
  const float32x4x2_t a = vtrnq_f32(v[0], v[1]);
  const float32x4x2_t b = vtrnq_f32(v[2], v[3]);
  v[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
  v[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
  v[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
  v[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

inline V sums(V *v) { return vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3])); }

#include "attention/kernel_body.h"

const Kernel kernel{"neon", attend, join};

} // namespace

const Kernel *neon_kernel() { return &kernel; }

} // namespace recua::attention

#else

namespace recua::attention {
const Kernel *neon_kernel() { return nullptr; }
} // namespace recua::attention

#endif
