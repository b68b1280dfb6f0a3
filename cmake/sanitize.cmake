# Builds that look for mistakes in native code (`npm run test:sanitized`, `npm run test:fuzz`):
# RECUA_SANITIZE is `address` (with undefined behavior, of our own code alone: ggml's kernels read
# unaligned words on purpose) or `thread`. Needs clang. Included by the root CMakeLists.txt before
# the targets.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "RECUA_SANITIZE needs clang, not ${CMAKE_CXX_COMPILER_ID}: pass -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++.")
endif()
add_compile_options(-fsanitize=${RECUA_SANITIZE} -fno-omit-frame-pointer -gline-tables-only)
# The one runtime that node preloads, not one for each library.
add_link_options(-fsanitize=${RECUA_SANITIZE} -shared-libsan)
if(RECUA_SANITIZE STREQUAL "address")
  # What libFuzzer steers by; without a fuzzer it does nothing.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# A thread pool of ggml's own: OpenMP's is not compiled for a sanitizer.
set(GGML_OPENMP OFF CACHE BOOL "" FORCE)
