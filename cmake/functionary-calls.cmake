# Reads the calls of Functionary v3.2, each of which is ">>>", a name, a line break and arguments:
# llama.cpp's parser takes none behind a text or another call, and its grammar ends an answer with
# an error at any other ">>>". Included by the root CMakeLists.txt after edited-copy.cmake, before
# schema-converter.cmake.
recua_edit(llama-common parsers/functionary-v3-2.cpp)
recua_instead("#include \"parsers.h\"" "#include \"parsers/parsers.h\"")
recua_instead("inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;\n" "inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    std::vector<std::string> calls;
    std::string names;
    if (has_tools) {
        foreach_function(inputs.tools, [&](const json & tool) {
            const std::string name = tool.at(\"function\").at(\"name\");
            calls.push_back(\">>>\" + name + \"\\n\");
            names += (names.empty() ? \"\" : \"|\") + regex_escape(name);
        });
    }
")
recua_instead("p.content(p.until(\">>>\"));" "p.content(p.until_one_of(calls)) + p.literal(\">>>\");")
recua_instead("p.literal(\"\\n\")) +\n" "p.literal(\"\\n\")) + p.space() +\n")
recua_instead("p.trigger_rule(\"tools\", p.one_or_more(tool_choice));" "p.trigger_rule(\"tools\", inputs.parallel_tool_calls ? tool_choice + p.zero_or_more(p.literal(\">>>\") + tool_choice) : tool_choice);")
# The answer begins behind the prompt's ">>>".
recua_instead("\">>>(?!all)\"" "\"(?:^|>>>)((?:\" + names + \")\\n)\"")
recua_compile()
