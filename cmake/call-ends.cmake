# Reads a call with white space before its closing mark with every chat template whose arguments
# have tags: the grammar allows it, but llama.cpp's parser took it for a few only. Included by the
# root CMakeLists.txt after edited-copy.cmake, before schema-converter.cmake.
recua_edit(llama-common chat-auto-parser-generator.cpp)
recua_instead(": p.peek(p.literal(format.per_call_end));" ": p.peek(p.space() + p.literal(format.per_call_end));")
recua_compile()
