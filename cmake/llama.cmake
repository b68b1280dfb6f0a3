# Replaces llama.cpp's unicode.cpp with Recua's, which includes it (native/llama/). Included by the
# root CMakeLists.txt once the targets exist.
get_target_property(sources llama SOURCES)
if(NOT unicode.cpp IN_LIST sources)
  message(FATAL_ERROR "llama.cpp's unicode.cpp is not where Recua expects it: cmake/llama.cmake replaces it.")
endif()
list(REMOVE_ITEM sources unicode.cpp)
foreach(name regex regex_compile regex_split text_only unicode_words)
  list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/native/llama/${name}.cpp")
endforeach()
set_property(TARGET llama PROPERTY SOURCES "${sources}")
