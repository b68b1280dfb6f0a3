# llama.cpp learns the format of a chat template from texts that the template makes of a few short
# messages. It joins their parts in time that is quadratic in their number, and searches them for
# one another, so that work is counted, and the texts are limited
# (native/llama-common/jinja_bounds.h). Included by the root CMakeLists.txt after edited-copy.cmake,
# before schema-converter.cmake.
recua_edit(llama-common chat-auto-parser-helpers.cpp)
recua_behind("result.suffix = left_end->value + result.suffix;" "recua_jinja::copied(result.suffix.size());")
recua_instead("return std::move(str) + seg.value; };" "recua_jinja::copied(str.size()); return std::move(str) + seg.value; };")
recua_instead("return common_chat_template_direct_apply(tmpl, tmpl_params);" "return recua_jinja::sample(common_chat_template_direct_apply(tmpl, tmpl_params));")
recua_compile("\"jinja_bounds.h\"")
