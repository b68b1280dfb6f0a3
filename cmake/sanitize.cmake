# Builds with sanitizers (`npm run test:sanitized`, `npm run fuzz:native`): RECUA_SANITIZE is
# `address` (with undefined behavior, for our own code only: ggml's kernels read unaligned words on
# purpose), which needs clang, or `thread`, which needs gcc: clang's runtime cannot be loaded into
# node. Included by the root CMakeLists.txt before the targets.
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
  # node exports its C++ library symbols, including shared_ptr counts, and is not compiled for
  # sanitizers: without this option, our code would use node's.
  add_link_options(-Wl,-Bsymbolic-functions)
else()
  add_compile_options(-gline-tables-only)
  # The one runtime that is preloaded into node, not one per library.
  add_link_options(-shared-libsan)
  # Coverage feedback for libFuzzer; without a fuzzer it does nothing.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# Use ggml's own thread pool: OpenMP's is not compiled for a sanitizer.
set(GGML_OPENMP OFF CACHE BOOL "" FORCE)
