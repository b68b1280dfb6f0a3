# How Recua compiles ggml's CPU backend differently: the plain one, or each variant of a packaged
# build. Included by the root CMakeLists.txt once the targets exist.
include(CheckCXXCompilerFlag)
# With AVX512-FP16 ggml takes dot products of F16 in steps of 128 values, and the rest one value at
# a time: with attention heads of 64 that is all of it. The plain AVX-512 code is three times as
# fast there, and sums in F32.
check_cxx_compiler_flag(-mno-avx512fp16 RECUA_NO_AVX512FP16)

# Comma-separated features with which set-up found that this machine computes wrongly
# (scripts/processor.mjs). GCC and clang also remove features that depend on a removed one.
set(RECUA_CPU_WITHOUT "" CACHE STRING "Instructions that the CPU backend does without: amx, avx512-extensions, avx512, avx2")
set(without_amx amx-tile amx-int8 amx-bf16 amx-fp16)
set(without_avx512-extensions avx512vnni avx512bf16 avx512vbmi avx512vbmi2 avxvnni)
set(without_avx512 avx512f avx512cd avx512bw avx512dq avx512vl)
set(without_avx2 avx2 fma f16c avxvnni)
string(REPLACE "," ";" without "${RECUA_CPU_WITHOUT}")
set(without_options)
foreach(name ${without})
  if(NOT DEFINED without_${name})
    message(FATAL_ERROR "RECUA_CPU_WITHOUT knows amx, avx512-extensions, avx512 and avx2, not ${name}.")
  endif()
  foreach(feature ${without_${name}})
    check_cxx_compiler_flag("-mno-${feature}" RECUA_NO_${feature})
    if(RECUA_NO_${feature})
      list(APPEND without_options "$<$<COMPILE_LANGUAGE:C,CXX>:-mno-${feature}>")
    endif()
  endforeach()
endforeach()

foreach(backend ggml-cpu ${GGML_AVAILABLE_BACKENDS})
  if(NOT TARGET ${backend} OR NOT backend MATCHES "^ggml-cpu")
    continue()
  endif()
  if(NOT MSVC)
    target_compile_options(${backend} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include \"${CMAKE_CURRENT_SOURCE_DIR}/cmake/amx-tile-config.h\">")
  endif()
  if(without_options)
    target_compile_options(${backend} PRIVATE ${without_options})
  endif()
  if(RECUA_NO_AVX512FP16)
    target_compile_options(${backend} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:-mno-avx512fp16>")
  endif()
endforeach()
