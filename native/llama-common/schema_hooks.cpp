// llama.cpp's names for the schema converter, which call the addon's converter or llama.cpp's own.
#include "schema_hooks.h"

// llama.cpp's own functions, under the names that cmake/schema-converter.cmake gives them.
std::string llama_json_schema_to_grammar(const common_json &schema, bool force_gbnf);
std::string llama_json_schema_to_grammar(const common_chat_schema_document &schema);
std::string llama_build_grammar(const std::function<void(const common_grammar_builder &)> &build, const common_grammar_options &options);
common_chat_schema_document llama_chat_schema_from_json(const common_json &schema);

static recua_schema_hooks hooks = {nullptr, nullptr, nullptr};

void recua_set_schema_hooks(const recua_schema_hooks &given) { hooks = given; }

common_chat_schema_document common_chat_schema_from_json(const common_json &schema) {
  return hooks.read != nullptr ? hooks.read(schema) : llama_chat_schema_from_json(schema);
}

std::string json_schema_to_grammar(const common_chat_schema_document &schema) {
  return hooks.grammar != nullptr ? hooks.grammar(schema) : llama_json_schema_to_grammar(schema);
}

std::string json_schema_to_grammar(const common_json &schema, bool force_gbnf) {
  return hooks.grammar != nullptr ? hooks.grammar(hooks.read(schema)) : llama_json_schema_to_grammar(schema, force_gbnf);
}

std::string build_grammar(const std::function<void(const common_grammar_builder &)> &build, const common_grammar_options &options) {
  return hooks.build != nullptr ? hooks.build(build, options) : llama_build_grammar(build, options);
}
