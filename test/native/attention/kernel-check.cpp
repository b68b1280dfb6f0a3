// One kernel of native/attention alone, against double precision: for processors that the machine
// does not have, in an emulator. Compiled with -DKERNEL=neon_kernel and the file of that kernel.
// Prints a JSON line for each shape: the largest error of the kernel, and that of the same sums in
// plain floats.
#include "attention/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

using namespace recua::attention;

namespace {

struct Shape {
  int32_t dk, dv, keys, tokens, heads, kv_heads, streams;
  Format format;
  float size, softcap;
  bool masked, sinks, slopes;
  int32_t parts;
};

uint16_t half_of(float x) { // of normal numbers
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const int32_t exponent = static_cast<int32_t>(bits >> 23 & 0xFF) - 112;
  if (exponent <= 0) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 0x3FFu));
}

float float_of(uint16_t half) {
  const int32_t exponent = half >> 10 & 0x1F;
  const float size = exponent == 0 ? 0 : std::ldexp(static_cast<float>((half & 0x3FF) | 0x400), exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

// Rows of a type, and their values as floats.
struct Rows_ {
  std::vector<char> bytes;
  std::vector<float> values;
  int64_t row;
};

Rows_ rows_of(const std::vector<float> &from, int32_t width, Format format) {
  Rows_ rows;
  const int64_t count = static_cast<int64_t>(from.size()) / width;
  const int64_t sizes[] = {4LL * width, 2LL * width, 2LL * width, 34LL * width / 32};
  rows.row = sizes[static_cast<int>(format)];
  rows.bytes.resize(static_cast<size_t>(rows.row * count));
  rows.values.resize(from.size());
  for (int64_t r = 0; r < count; r++) {
    char *to = rows.bytes.data() + r * rows.row;
    for (int32_t i = 0; i < width; i++) {
      const float x = from[static_cast<size_t>(r * width + i)];
      float &kept = rows.values[static_cast<size_t>(r * width + i)];
      if (format == Format::f32) {
        std::memcpy(to + 4 * i, &x, 4);
        kept = x;
      } else if (format == Format::f16) {
        const uint16_t half = half_of(x);
        std::memcpy(to + 2 * i, &half, 2);
        kept = float_of(half);
      } else if (format == Format::bf16) {
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        const auto upper = static_cast<uint16_t>(bits >> 16);
        std::memcpy(to + 2 * i, &upper, 2);
        bits &= 0xFFFF0000u;
        std::memcpy(&kept, &bits, 4);
      } else {
        const uint16_t scale = half_of(0.03125f);
        char *block = to + i / 32 * 34;
        std::memcpy(block, &scale, 2);
        block[2 + i % 32] = static_cast<char>(std::clamp(std::lround(x * 32), -127L, 127L));
        kept = static_cast<float>(static_cast<signed char>(block[2 + i % 32])) * 0.03125f;
      }
    }
  }
  return rows;
}

// By definition, in numbers of type T.
template <typename T>
std::vector<double> right(const Task &task, const std::vector<float> &q, const std::vector<float> &k, const std::vector<float> &v,
                          const std::vector<float> &mask) {
  std::vector<double> out(static_cast<size_t>(task.streams) * task.tokens * task.heads * task.dv);
  for (int32_t stream = 0; stream < task.streams; stream++) {
    for (int32_t token = 0; token < task.tokens; token++) {
      for (int32_t head = 0; head < task.heads; head++) {
        const int32_t kv = head / task.group;
        const int64_t row = (static_cast<int64_t>(stream) * task.tokens + token) * task.heads + head;
        std::vector<T> logits(task.keys, -INFINITY);
        T most = task.sinks != nullptr ? task.sinks[head] : -INFINITY;
        for (int32_t key = 0; key < task.keys; key++) {
          const T bias = mask.empty() ? 0 : mask[(static_cast<int64_t>(stream) * task.tokens + token) * task.keys + key];
          if (bias == -INFINITY) continue;
          T sum = 0;
          for (int32_t i = 0; i < task.dk; i++) sum += static_cast<T>(q[row * task.dk + i]) * k[((static_cast<int64_t>(stream) * task.keys + key) * task.kv_heads + kv) * task.dk + i];
          sum *= task.scale;
          if (task.softcap != 0) sum = task.softcap * std::tanh(sum);
          logits[key] = sum + bias * (task.slopes != nullptr ? task.slopes[head] : 1);
          most = std::max(most, logits[key]);
        }
        if (most == -INFINITY) continue;
        T total = task.sinks != nullptr ? std::exp(task.sinks[head] - most) : 0;
        std::vector<T> sums(task.dv);
        for (int32_t key = 0; key < task.keys; key++) {
          if (logits[key] == -INFINITY) continue;
          const T share = std::exp(logits[key] - most);
          total += share;
          for (int32_t i = 0; i < task.dv; i++) sums[i] += share * v[((static_cast<int64_t>(stream) * task.keys + key) * task.kv_heads + kv) * task.dv + i];
        }
        for (int32_t i = 0; i < task.dv; i++) out[row * task.dv + i] = sums[i] / total;
      }
    }
  }
  return out;
}

template <typename A>
double most_apart(const std::vector<A> &a, const std::vector<double> &b) {
  double most = 0;
  for (size_t i = 0; i < b.size(); i++) {
    const double apart = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(apart <= most)) most = apart;
  }
  return most;
}

void check(const Kernel &kernel, const Shape &s) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto array = [&](int64_t count, float size) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float &x : values) x = normal(random) * size;
    return values;
  };
  const std::vector<float> q = array(static_cast<int64_t>(s.streams) * s.tokens * s.heads * s.dk, s.size);
  const Rows_ k = rows_of(array(static_cast<int64_t>(s.streams) * s.keys * s.kv_heads * s.dk, 1), s.dk, s.format);
  const Rows_ v = rows_of(array(static_cast<int64_t>(s.streams) * s.keys * s.kv_heads * s.dv, 1), s.dv, s.format);
  std::vector<float> mask;
  std::vector<uint16_t> halves;
  if (s.masked) {
    for (int32_t stream = 0; stream < s.streams; stream++) {
      for (int32_t token = 0; token < s.tokens; token++) {
        for (int32_t key = 0; key < s.keys; key++) {
          const int32_t past = s.keys - s.tokens + token - 9 * stream - key;
          mask.push_back(past < 0 || token % 7 == 6 ? -INFINITY : s.slopes ? static_cast<float>(-std::min(past, 500)) : 0);
          halves.push_back(mask.back() == -INFINITY ? 0xFC00 : half_of(mask.back()));
          if (mask.back() != -INFINITY) mask.back() = float_of(halves.back());
        }
      }
    }
  }
  const std::vector<float> sinks = array(s.heads, 1);
  std::vector<float> slopes, out(static_cast<size_t>(s.streams) * s.tokens * s.heads * s.dv, NAN);
  for (int32_t h = 0; h < s.heads; h++) slopes.push_back(std::exp2(-static_cast<float>(h + 1)));

  Task task{};
  task.dk = s.dk, task.dv = s.dv, task.keys = s.keys, task.tokens = s.tokens, task.heads = s.heads, task.kv_heads = s.kv_heads;
  task.group = s.heads / s.kv_heads, task.streams = s.streams;
  task.q = {reinterpret_cast<const char *>(q.data()), 4LL * s.heads * s.dk, 4LL * s.dk, 4LL * s.tokens * s.heads * s.dk, Format::f32};
  task.k = {k.bytes.data(), k.row * s.kv_heads, k.row, k.row * s.kv_heads * s.keys, s.format};
  task.v = {v.bytes.data(), v.row * s.kv_heads, v.row, v.row * s.kv_heads * s.keys, s.format};
  if (s.masked) task.mask = {reinterpret_cast<const char *>(halves.data()), 2LL * s.keys, 0, 2LL * s.tokens * s.keys, Format::f16};
  task.mask_streams = s.streams;
  task.scale = 0.125f / (s.softcap != 0 ? s.softcap : 1);
  task.softcap = s.softcap;
  task.slopes = s.slopes ? slopes.data() : nullptr;
  task.sinks = s.sinks ? sinks.data() : nullptr;
  task.out = out.data();

  // Few rows: all KV heads in one unit, as Work does.
  const int32_t together = s.tokens * task.group <= most_rows_together ? s.kv_heads : 1;
  const int32_t rows = s.tokens * task.group * together;
  std::vector<float> scratch(static_cast<size_t>(rows) * (s.dk + s.dv + 80) + 64 * (s.dk + s.dv + s.tokens + 1) + 400);
  auto *memory = reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const int64_t part = static_cast<int64_t>(rows) * (partial_head + s.dv);
  std::vector<float> parts(static_cast<size_t>(part) * s.parts);
  for (int32_t stream = 0; stream < s.streams; stream++) {
    for (int32_t head = 0; head < s.kv_heads; head += together) {
      Unit unit{stream, head, together, 0, s.tokens, 0, s.keys};
      if (s.parts == 1) {
        kernel.attend(task, unit, memory, nullptr);
        continue;
      }
      for (int32_t i = 0; i < s.parts; i++) {
        unit.key = s.keys / s.parts / 64 * 64 * i;
        unit.key_end = i + 1 == s.parts ? s.keys : s.keys / s.parts / 64 * 64 * (i + 1);
        kernel.attend(task, unit, memory, parts.data() + i * part);
      }
      kernel.join(task, unit, parts.data(), part, s.parts);
    }
  }
  const std::vector<double> exact = right<double>(task, q, k.values, v.values, mask);
  const std::vector<double> plain = right<float>(task, q, k.values, v.values, mask);
  std::printf("{\"most\":%.3g,\"plain\":%.3g}\n", most_apart(out, exact), most_apart(plain, exact));
}

} // namespace

int main() {
  const Kernel *kernel = KERNEL();
  if (kernel == nullptr) return 2;
  for (const Shape &shape : std::initializer_list<Shape>{
           {64, 64, 1, 1, 6, 2, 1, Format::f16, 1, 0, false, false, false, 1},
           {64, 64, 333, 1, 6, 2, 1, Format::f16, 1, 0, true, false, false, 1},
           {64, 64, 777, 1, 4, 1, 1, Format::f16, 60, 0, true, false, false, 3},
           {64, 64, 200, 30, 6, 2, 2, Format::f16, 1, 0, true, false, false, 1},
           {64, 64, 200, 13, 6, 2, 2, Format::f16, 300, 0, true, true, false, 2},
           {80, 96, 130, 5, 8, 1, 1, Format::f32, 1, 0, true, false, true, 1},
           {128, 128, 130, 17, 4, 4, 1, Format::bf16, 20, 30, true, true, false, 1},
           {192, 128, 130, 3, 4, 2, 1, Format::q8_0, 1, 0, true, false, false, 1},
           {256, 256, 190, 9, 4, 2, 1, Format::f16, 1, 0, false, false, false, 1},
           {64, 64, 4096, 1, 3, 1, 1, Format::f16, 1, 0, false, false, false, 5},
       }) {
    check(*kernel, shape);
  }
}
