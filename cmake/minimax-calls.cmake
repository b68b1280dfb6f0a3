# Holds the lists in calls of MiniMax M3 to minItems and maxItems: llama.cpp's parser and grammar
# take any number of items. Included by the root CMakeLists.txt after edited-copy.cmake, before
# schema-converter.cmake.
recua_edit(llama-common parsers/minimax-m3.cpp)
recua_instead("#include \"parsers.h\"" "#include \"parsers/parsers.h\"")
recua_instead("p.repeat(p.space() + item, 0, -1)" "p.repeat(p.space() + item, list.min_items, list.max_items)")
recua_instead("const std::string item_close = NS + \"</item>\";" "const auto & list = static_cast<const common_chat_schema_array &>(schema);
                    const std::string item_close = NS + \"</item>\";")
recua_compile()
