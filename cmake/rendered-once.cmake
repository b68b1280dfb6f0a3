# Renders the same conversation once per session, not once per use
# (native/llama-common/rendered_once.h): llama.cpp renders each prompt three times, to learn where
# the answer begins, and again for each parser. Included by the root CMakeLists.txt after
# edited-copy.cmake, before schema-converter.cmake.
recua_edit(llama-common chat.cpp)
recua_instead("    jinja::global_from_json(ctx, inp, inputs.mark_input);\n" "    const auto render = [&] {\n    jinja::global_from_json(ctx, inp, inputs.mark_input);\n")
recua_instead("    std::string result = parts->as_string().str();\n\n    // TODO: improve this later" "    return parts->as_string().str();\n    };\n    std::string result = recua_jinja::rendered_once(&tmpl, inputs.mark_input, [&] { return inp.dump(); }, render);\n\n    // TODO: improve this later")
# Here too the texts of a list are joined (native/llama-common/jinja_bounds.h).
recua_behind("const jinja::value results = runtime.execute(tmpl.prog);" "recua_jinja::printed(results);")
# Otherwise the error is just "std::exception".
recua_instead("        throw e;" "        throw;")
recua_compile("\"rendered_once.h\"" "\"jinja_bounds.h\"")
target_sources(llama-common PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/native/llama-common/rendered_once.cpp")
