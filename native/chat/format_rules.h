// Writes a chat format's parser as GBNF, like common_peg_arena::build_grammar of llama.cpp v0.5.0,
// so that parts of a format's grammar can be rewritten (custom_input, forced_call).
#pragma once

#include "chat.h"

#include <optional>
#include <string>
#include <utility>

namespace recua::format {

constexpr int most_depth = 100; // of nested parsers

// A parser without children as GBNF; '' is nothing. nullopt for parsers with children.
std::optional<std::string> leaf(const common_peg_arena &arena, common_peg_parser_id id);
// Repeats `one`; `most` below 0: no upper limit.
std::string repeat(const std::string &one, int least, int most);
// The child of a parser that only names or marks it; nullopt if it has several, or is not such a
// parser.
std::optional<common_peg_parser_id> inside(const common_peg_arena &arena, common_peg_parser_id id);
// The text of a grammar's rule, from after "::= " to the end of the line; npos if there is no such
// rule.
std::pair<size_t, size_t> find_rule(const std::string &grammar, const std::string &name);

} // namespace recua::format
