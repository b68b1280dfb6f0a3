# What Recua changes in libllama: how text is split into words before it is tokenised (native/llama/regex_split.h).
# Included by the root CMakeLists.txt once the targets are there.
get_target_property(sources llama SOURCES)
if(NOT "unicode.cpp" IN_LIST sources)
  message(FATAL_ERROR "llama.cpp's unicode.cpp is not where native/llama/unicode_words.cpp expects it.")
endif()
list(REMOVE_ITEM sources unicode.cpp)
foreach(name regex regex_compile regex_split unicode_words)
  list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/native/llama/${name}.cpp")
endforeach()
set_property(TARGET llama PROPERTY SOURCES "${sources}")
