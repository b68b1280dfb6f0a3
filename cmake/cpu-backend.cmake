# What Recua changes in how ggml's CPU backend is compiled: the plain one, or each variant of a
# packaged build. Included by the root CMakeLists.txt once the targets are there.
include(CheckCXXCompilerFlag)
# With AVX512-FP16 ggml takes dot products of F16 in steps of 128 values, and what is left one value
# at a time: with attention heads of 64 that is all of it. The plain AVX-512 code is three times as
# fast there, and sums in F32.
check_cxx_compiler_flag(-mno-avx512fp16 RECUA_NO_AVX512FP16)

foreach(backend ggml-cpu ${GGML_AVAILABLE_BACKENDS})
  if(NOT TARGET ${backend} OR NOT backend MATCHES "^ggml-cpu")
    continue()
  endif()
  if(NOT MSVC)
    target_compile_options(${backend} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include \"${CMAKE_CURRENT_SOURCE_DIR}/cmake/amx-tile-config.h\">")
  endif()
  if(RECUA_NO_AVX512FP16)
    target_compile_options(${backend} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:-mno-avx512fp16>")
  endif()
endforeach()
