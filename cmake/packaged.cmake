# Settings of the prebuilt npm packages in addition to the local build (`npm run pack`;
# docs/packages.md gives the reasons). Included by the root CMakeLists.txt in place of llama.cpp's
# directory if RECUA_PACKAGED is on.
#
# - ggml is shared, because its backends are libraries that are chosen and loaded at run time: one
#   for each CPU level, and the GPUs. llama.cpp itself is linked into recua.node, so no C++ crosses
#   a library boundary except exceptions.
# - Nothing needs more of the system than Node itself does: libstdc++ is linked in, glibc's symbols
#   are old ones (glibc-floor.h).
# - Files keep their names when copied: no versions in sonames, so no symbolic links, which npm
#   would drop.
set(GGML_BACKEND_DL ON CACHE BOOL "" FORCE)
set(GGML_NATIVE OFF CACHE BOOL "" FORCE)

option(RECUA_PACKAGED_CPU "Build the addon and a CPU backend for each level of CPU; off: one GPU backend alone" ON)
set(GGML_CPU ${RECUA_PACKAGED_CPU} CACHE BOOL "" FORCE)
set(GGML_CPU_ALL_VARIANTS ${RECUA_PACKAGED_CPU} CACHE BOOL "" FORCE)

# A library looks for others only beside itself; build paths are not written into it.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "${CMAKE_BUILD_RPATH}")
if(APPLE)
  set(CMAKE_INSTALL_NAME_DIR "@rpath")
endif()

# Assert messages name files relative to the tree, not by their path on the build machine.
if(MSVC)
  # One C runtime for all libraries, and so one heap; it comes with the package.
  set(CMAKE_MSVC_RUNTIME_LIBRARY "MultiThreadedDLL")
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:/d1trimfile:${RECUA_LLAMA_CPP}/>" "$<$<COMPILE_LANGUAGE:C,CXX>:/d1trimfile:${CMAKE_CURRENT_SOURCE_DIR}/>")
else()
  foreach(folder "${RECUA_LLAMA_CPP}" "${CMAKE_BINARY_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    get_filename_component(real "${folder}" REALPATH)
    add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${folder}/=>" "$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${real}/=>"
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -ffile-prefix-map=${folder}/= -Xcompiler -ffile-prefix-map=${real}/=>")
  endforeach()
endif()

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX,CUDA>:SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/cmake/glibc-floor.h>")
  add_library(recua-glibc-floor OBJECT "${CMAKE_CURRENT_SOURCE_DIR}/cmake/glibc-floor.c")
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffunction-sections;-fdata-sections>")
  # libgcc_s stays shared: exceptions cross libraries, and Node has it.
  foreach(kind SHARED MODULE)
    string(APPEND CMAKE_${kind}_LINKER_FLAGS " -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--as-needed -Wl,-O1 -Wl,-z,relro -Wl,-z,now -s")
  endforeach()
  link_libraries(recua-glibc-floor)
elseif(APPLE)
  foreach(kind SHARED MODULE)
    string(APPEND CMAKE_${kind}_LINKER_FLAGS " -Wl,-dead_strip -Wl,-x")
  endforeach()
endif()

# The options that llama.cpp would set for ggml; ggml is added first here, because it alone is
# shared.
set(GGML_LLAMAFILE_DEFAULT ON)
set(GGML_CUDA_GRAPHS_DEFAULT ON)
set(GGML_ALL_WARNINGS OFF CACHE BOOL "" FORCE)
set(BUILD_SHARED_LIBS ON)
add_subdirectory("${RECUA_LLAMA_CPP}/ggml" "${CMAKE_BINARY_DIR}/llama.cpp/ggml" EXCLUDE_FROM_ALL)
foreach(library ggml ggml-base ${GGML_AVAILABLE_BACKENDS})
  set_property(TARGET ${library} PROPERTY VERSION)
  set_property(TARGET ${library} PROPERTY SOVERSION)
endforeach()

# The CUDA runtime is small and linked in; cuBLAS is half a gigabyte and stays the toolkit's.
if(TARGET ggml-cuda)
  get_target_property(libraries ggml-cuda LINK_LIBRARIES)
  list(TRANSFORM libraries REPLACE "^CUDA::cudart$" "CUDA::cudart_static")
  set_target_properties(ggml-cuda PROPERTIES LINK_LIBRARIES "${libraries}")
endif()

set(BUILD_SHARED_LIBS OFF)
