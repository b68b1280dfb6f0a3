# Builds that look for mistakes in native code (`npm run test:sanitized`, `npm run fuzz:native`):
# RECUA_SANITIZE is `address` (with undefined behavior, of our own code alone: ggml's kernels read
# unaligned words on purpose), which needs clang, or `thread`, which needs gcc: clang's runtime does
# not bear to be loaded into node. Included by the root CMakeLists.txt before the targets.
set(compilers address Clang thread GNU)
list(FIND compilers "${RECUA_SANITIZE}" at)
math(EXPR at "${at} + 1")
list(GET compilers ${at} wanted)
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "${wanted}")
  message(FATAL_ERROR "RECUA_SANITIZE=${RECUA_SANITIZE} needs ${wanted}, not ${CMAKE_CXX_COMPILER_ID}.")
endif()
add_compile_options(-fsanitize=${RECUA_SANITIZE} -fno-omit-frame-pointer)
add_link_options(-fsanitize=${RECUA_SANITIZE})
if(RECUA_SANITIZE STREQUAL "thread")
  add_compile_options(-g1)
  # node exports what it has of the C++ library, counts of shared_ptr among it, and is not compiled
  # for this: without, ours would use its.
  add_link_options(-Wl,-Bsymbolic-functions)
else()
  add_compile_options(-gline-tables-only)
  # The one runtime that node preloads, not one for each library.
  add_link_options(-shared-libsan)
  # What libFuzzer steers by; without a fuzzer it does nothing.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# A thread pool of ggml's own: OpenMP's is not compiled for a sanitizer.
set(GGML_OPENMP OFF CACHE BOOL "" FORCE)
