# Chats of several requests are rendered at once: gives llama-common a localtime() whose result
# belongs to the thread (native/llama-common/local_time.h). On Windows the C library's own does.
# Included by the root CMakeLists.txt once the targets exist.
if(NOT WIN32)
  target_compile_options(llama-common PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include \"${CMAKE_CURRENT_SOURCE_DIR}/native/llama-common/local_time.h\">")
endif()
