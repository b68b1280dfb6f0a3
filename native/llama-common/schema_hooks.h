// Functions that read JSON schemas and make their grammars for llama.cpp's chat parsers. Compiled
// into llama-common (cmake/schema-converter.cmake); the addon sets its own converter once, when it
// is loaded.
#pragma once

#include "json-schema-to-grammar.h"

struct recua_schema_hooks {
  common_chat_schema_document (*read)(const common_json &schema);
  std::string (*grammar)(const common_chat_schema_document &schema);
  std::string (*build)(const std::function<void(const common_grammar_builder &)> &build, const common_grammar_options &options);
};

// Call before any other thread converts schemas.
void recua_set_schema_hooks(const recua_schema_hooks &hooks);
