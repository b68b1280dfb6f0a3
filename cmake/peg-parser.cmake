# llama.cpp's chat parsers. Rules of their grammars get names that differ where the names in a
# request differ (native/llama-common/rule_name.h). Strings in calls keep to what can be read from
# them. A parse has a bound on its recursion (parse_level.h), and counts toward the limits of a chat
# template whose format llama.cpp learns by it (jinja_bounds.h). Included by the root CMakeLists.txt
# after edited-copy.cmake, before schema-converter.cmake.
recua_edit(llama-common peg-parser.cpp)
recua_instead("return std::regex_replace(name, invalid_rule_chars_re, \"-\");" "return recua::rule_name(name);")
# A tool named "call" would otherwise replace the rule "tool-call", which refers to it.
recua_instead("auto clean_name = rule_name(name);\n    auto rule_id" "auto clean_name = rule_name(name);\n    while (arena_.has_rule(clean_name)) clean_name += \"-again\";\n    auto rule_id")
# The parser takes no escaped blank, and control characters in a string would make invalid JSON.
recua_instead([=[R"(\\] | "\\" ( [)" + delim + R"(\\/ bfnrt]]=] [=[R"(\\\x00-\x1F] | "\\" ( [)" + delim + R"(\\/bfnrt]]=])
recua_behind("    // Execute parser\n" "   const recua::ParseLevel level(ctx.parse_depth);\n")
recua_instead("return std::visit(exec, parser);" "auto result = std::visit(exec, parser);
    recua_jinja::parsed(result.end > start ? result.end - start : 0);
    return result;")
recua_compile("\"jinja_bounds.h\"" "\"parse_level.h\"" "\"rule_name.h\"")
