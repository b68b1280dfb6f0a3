// The attention kernels for any processor: vectors of four in GCC and Clang, or no kernel.
#include "attention/kernel.h"

#if defined(__GNUC__)

#include <math.h>
#include <string.h>

namespace recua::attention {

namespace {

constexpr int W = 4;
constexpr int tile_vectors = 2;
constexpr int32_t few_rows = 4;

typedef float V __attribute__((vector_size(16)));
typedef int32_t Words __attribute__((vector_size(16)));
typedef uint16_t Halves __attribute__((vector_size(8)));
typedef int8_t Bytes __attribute__((vector_size(4)));

template <typename To, typename From>
inline To read(const From *from) {
  To v;
  memcpy(&v, from, sizeof v);
  return v;
}

inline V load(const float *from) { return read<V>(from); }
inline void store(float *to, V v) { memcpy(to, &v, sizeof v); }
inline V all(float x) { return V{x, x, x, x}; }
inline V zero() { return all(0); }
inline V add(V a, V b) { return a + b; }
inline V sub(V a, V b) { return a - b; }
inline V mul(V a, V b) { return a * b; }
inline V div(V a, V b) { return a / b; }
inline V fma(V a, V b, V c) { return a * b + c; }
inline V choose(Words first, V x, V y) { return (V)((first & (Words)x) | (~first & (Words)y)); }
inline V most(V a, V b) { return choose(a > b, a, b); }
inline float largest(V v) {
  const float a = v[0] > v[1] ? v[0] : v[1];
  const float b = v[2] > v[3] ? v[2] : v[3];
  return a > b ? a : b;
}
inline float sum(V v) { return (v[0] + v[1]) + (v[2] + v[3]); }
inline V from_f16(const uint16_t *from) {
  const Words bits = __builtin_convertvector(read<Halves>(from), Words);
  const Words size = bits & 0x7FFF;
  // Infinity and NaN keep their meaning; for all other values, subnormals included, the exponent is
  // rebased.
  const V special = (V)((size << 13) | 0x7F800000);
  const V value = choose(size >= 0x7C00, special, (V)(size << 13) * 0x1p112f);
  return (V)((Words)value | ((bits & 0x8000) << 16));
}
inline V from_bf16(const uint16_t *from) { return (V)(__builtin_convertvector(read<Halves>(from), Words) << 16); }
inline V from_i8(const int8_t *from) { return __builtin_convertvector(read<Bytes>(from), V); }
// Rounds to the nearest whole number: adding a large number drops the fraction.
inline V rounded(V v) { return (v + 12582912.0f) - 12582912.0f; }
inline V times_power(V v, V n) { return v * (V)((__builtin_convertvector(n, Words) + 127) << 23); }
inline V where_less(V a, V b, V x, V y) { return choose(a < b, x, y); }
inline void transpose(V *v) {
  const V rows[4] = {v[0], v[1], v[2], v[3]};
  for (int i = 0; i < W; i++) v[i] = V{rows[0][i], rows[1][i], rows[2][i], rows[3][i]};
}
inline V sums(V *v) {
  transpose(v);
  return (v[0] + v[1]) + (v[2] + v[3]);
}

#include "attention/kernel_body.h"

const Kernel kernel{"plain", attend, join};

} // namespace

const Kernel *plain_kernel() { return &kernel; }

} // namespace recua::attention

#else

namespace recua::attention {
const Kernel *plain_kernel() { return nullptr; }
} // namespace recua::attention

#endif
