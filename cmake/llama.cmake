# Replaces sources of libllama with Recua's, which include llama.cpp's (native/llama/). Included by
# the root CMakeLists.txt once the targets exist.
get_target_property(sources llama SOURCES)
foreach(replaced unicode.cpp llama-vocab.cpp)
  if(NOT replaced IN_LIST sources)
    message(FATAL_ERROR "llama.cpp's ${replaced} is not where Recua expects it: cmake/llama.cmake replaces it.")
  endif()
  list(REMOVE_ITEM sources ${replaced})
endforeach()
foreach(name regex regex_compile regex_split unicode_words vocabulary)
  list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/native/llama/${name}.cpp")
endforeach()
set_property(TARGET llama PROPERTY SOURCES "${sources}")
