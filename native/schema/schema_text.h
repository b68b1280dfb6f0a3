// Expressions of GBNF that need nothing of a schema. Private to schema_grammar.
#pragma once

#include "schema/schema.h"

namespace recua::schema {

// A name, with its quotes, that is none of these: a tree of characters, one rule for each branch.
// Behind a beginning that they share no character is written by its number: it could be one of
// theirs. Uses the rule "char".
std::string other_names(const std::vector<common_chat_schema_property> &properties, Budget &budget, const NameRule &name_rule);

} // namespace recua::schema
