// Included before every source file of ggml's CPU backend.
//
// GCC before 11.5, 12.4 and 13.3 tells its optimizer that ldtilecfg reads 8 bytes (GCC bug 114098).
// It reads 64, so the compiler drops the stores that fill the rest of ggml's tile configuration,
// and the processor raises an illegal-instruction or protection fault, or computes with tiles of
// the wrong size. This version declares that the instruction reads all 64 bytes.
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__) && defined(__cplusplus)
#include <immintrin.h>
#undef _tile_loadconfig
static inline __attribute__((always_inline)) void recua_tile_loadconfig(const void *config) {
  struct Bytes {
    char of[64];
  };
  __asm__ volatile("ldtilecfg\t%X0" ::"m"(*static_cast<const Bytes *>(config)));
}
#define _tile_loadconfig(config) recua_tile_loadconfig(config)
#endif
