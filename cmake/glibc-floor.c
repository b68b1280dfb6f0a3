/* Functions newer than glibc 2.28 that a newer libstdc++.a needs, for packaged builds on Linux.
   Hidden, so each library keeps its own and never replaces the system's. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* 2.32. "There may be other threads" is always a correct answer. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* 2.36; std::random_device uses it. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) abort();
  return value;
}
