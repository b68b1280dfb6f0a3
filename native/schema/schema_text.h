// GBNF expressions that do not depend on a schema. Private to schema_grammar.
#pragma once

#include "schema/schema.h"

namespace recua::schema {

// A quoted name that is none of these, as a tree of characters with one rule per branch. After a
// prefix that it shares with them, no character may be written as a \u escape: it could be one of
// theirs. Uses the rule "char".
std::string other_names(const std::vector<common_chat_schema_property> &properties, Budget &budget, const NameRule &name_rule);

} // namespace recua::schema
