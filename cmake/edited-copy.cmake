# Compiles a file of llama.cpp from a copy with some lines changed. If a line that should change no
# longer exists, configuration fails. Included by the root CMakeLists.txt once the targets exist,
# before the scripts that use it.

# Begins a copy of a file of one of llama.cpp's libraries.
macro(recua_edit library path)
  set(edited_library "${library}")
  set(edited "${path}")
  get_target_property(edited_folder ${library} SOURCE_DIR)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${edited_folder}/${edited}")
  file(READ "${edited_folder}/${edited}" text)
endmacro()

# Replaces each occurrence of a text.
function(recua_instead old new)
  string(FIND "${text}" "${old}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${edited} of ${edited_library} no longer has what Recua changes in it: ${old}")
  endif()
  string(REPLACE "${old}" "${new}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

# Inserts text after each occurrence of a line.
macro(recua_behind line added)
  recua_instead("${line}" "${line} ${added}")
endmacro()

# Writes the copy, with more includes at its top, and compiles it in place of the file.
function(recua_compile)
  get_target_property(sources ${edited_library} SOURCES)
  set(whole_path "${edited_folder}/${edited}") # by which some are named
  if(NOT "${edited}" IN_LIST sources AND NOT "${whole_path}" IN_LIST sources)
    message(FATAL_ERROR "${edited} is not among the sources of ${edited_library}.")
  endif()
  set(includes "")
  foreach(header ${ARGN})
    string(APPEND includes "#include ${header}\n")
  endforeach()
  set(text "// Made by Recua's build of ${edited} of ${edited_library}.\n${includes}${text}")
  set(copy "${CMAKE_BINARY_DIR}/recua-edited/${edited}")
  set(before "")
  if(EXISTS "${copy}")
    file(READ "${copy}" before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE "${copy}" "${text}")
  endif()
  list(REMOVE_ITEM sources "${edited}" "${whole_path}")
  list(APPEND sources "${copy}")
  set_property(TARGET ${edited_library} PROPERTY SOURCES ${sources})
  target_include_directories(${edited_library} PRIVATE "${edited_folder}")
endfunction()
