/* Included before everything in packaged builds on Linux. Binds functions of which glibc added a
   version after 2.28 to their first version, so that the libraries load wherever Node does. The old
   versions differ only in how errors reach `errno` (exp, log, pow). */
#if defined(__linux__) && !defined(__ASSEMBLER__) && !defined(__CUDA_ARCH__)
#if defined(__x86_64__)
#define RECUA_GLIBC_FIRST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define RECUA_GLIBC_FIRST "GLIBC_2.17"
#endif
#ifdef RECUA_GLIBC_FIRST
#define RECUA_GLIBC_OLD(name) __asm__(".symver " #name "," #name "@" RECUA_GLIBC_FIRST)
RECUA_GLIBC_OLD(exp);   /* new in 2.29 */
RECUA_GLIBC_OLD(exp2);
RECUA_GLIBC_OLD(log);
RECUA_GLIBC_OLD(log2);
RECUA_GLIBC_OLD(pow);
#undef RECUA_GLIBC_OLD
#endif
#ifdef __cplusplus
#include <cstddef>
/* pthread_cond_clockwait came with 2.30; without it libstdc++ waits on the system clock and checks
   the steady clock when it wakes. */
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
#endif
#endif
