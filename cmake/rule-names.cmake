# Gives rules of the chat parsers' grammars names that differ where the names in a request differ
# (native/llama-common/rule_name.h). Included by the root CMakeLists.txt after edited-copy.cmake,
# before schema-converter.cmake. Also keeps strings in calls to what can be read from them.
recua_edit(llama-common peg-parser.cpp)
recua_instead("return std::regex_replace(name, invalid_rule_chars_re, \"-\");" "return recua::rule_name(name);")
# A tool named "call" would otherwise replace the rule "tool-call", which refers to it.
recua_instead("auto clean_name = rule_name(name);\n    auto rule_id" "auto clean_name = rule_name(name);\n    while (arena_.has_rule(clean_name)) clean_name += \"-again\";\n    auto rule_id")
# The parser takes no escaped blank, and control characters in a string would make invalid JSON.
recua_instead([=[R"(\\] | "\\" ( [)" + delim + R"(\\/ bfnrt]]=] [=[R"(\\\x00-\x1F] | "\\" ( [)" + delim + R"(\\/bfnrt]]=])
recua_compile("\"rule_name.h\"")
