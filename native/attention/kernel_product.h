// Matrix products of the attention kernels, over their vector. Included by kernel_body.h, in its
// anonymous namespace.

// A tile of M rows × N vectors: c = a · b, or c * factor + a · b. Null `factors` are ones.
template <int M, int N, bool Adds>
inline void tile(float *c, int32_t c_row, const float *a, int32_t a_row, const float *b, int32_t b_row, int32_t depth,
                 const float *factors) {
  V sums_[M][N];
#pragma GCC unroll 8
  for (int m = 0; m < M; m++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sums_[m][n] = zero();
  for (int32_t i = 0; i < depth; i++) {
    V right[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) right[n] = load(b + static_cast<int64_t>(i) * b_row + n * W);
#pragma GCC unroll 8
    for (int m = 0; m < M; m++) {
      const V left = all(a[static_cast<int64_t>(m) * a_row + i]);
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sums_[m][n] = fma(left, right[n], sums_[m][n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; m++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) {
      float *to = c + static_cast<int64_t>(m) * c_row + n * W;
      store(to, !Adds ? sums_[m][n] : add(factors == nullptr ? load(to) : mul(load(to), all(factors[m])), sums_[m][n]));
    }
}

template <int M, bool Adds>
inline void strip(float *c, int32_t c_row, const float *a, int32_t a_row, const float *b, int32_t b_row, int32_t columns, int32_t depth,
                  const float *factors) {
  int32_t column = 0;
  for (; column + tile_vectors * W <= columns; column += tile_vectors * W) {
    tile<M, tile_vectors, Adds>(c + column, c_row, a, a_row, b + column, b_row, depth, factors);
  }
  for (; column < columns; column += W) tile<M, 1, Adds>(c + column, c_row, a, a_row, b + column, b_row, depth, factors);
}

// The product of all rows; `columns` is a multiple of W.
template <bool Adds>
void product(float *c, int32_t c_row, const float *a, int32_t a_row, const float *b, int32_t b_row, int32_t rows, int32_t columns,
             int32_t depth, const float *factors) {
  int32_t row = 0;
  const auto next = [&](int32_t taken) {
    c += static_cast<int64_t>(taken) * c_row;
    a += static_cast<int64_t>(taken) * a_row;
    row += taken;
    if (Adds && factors != nullptr) factors += taken;
  };
  while (rows - row >= 6) {
    strip<6, Adds>(c, c_row, a, a_row, b, b_row, columns, depth, factors);
    next(6);
  }
  switch (rows - row) {
    case 5: return strip<5, Adds>(c, c_row, a, a_row, b, b_row, columns, depth, factors);
    case 4: return strip<4, Adds>(c, c_row, a, a_row, b, b_row, columns, depth, factors);
    case 3: return strip<3, Adds>(c, c_row, a, a_row, b, b_row, columns, depth, factors);
    case 2: return strip<2, Adds>(c, c_row, a, a_row, b, b_row, columns, depth, factors);
    case 1: return strip<1, Adds>(c, c_row, a, a_row, b, b_row, columns, depth, factors);
    default: return;
  }
}
